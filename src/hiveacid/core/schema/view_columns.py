"""Mapping of a view's columns to those of its query after the tables below it have changed."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.errors import SchemaMismatchError


def match_output_columns(outputs: Sequence[str], found: Sequence[str]) -> tuple[int, ...]:
    """Return, for each column that the query had when the view was made, its place among those it has now.

    Names find each other without regard to case, the n-th of a name the n-th; '' stands for columns that the query gave
    no name. New columns are passed over, so that ``SELECT *`` shows what it showed (Spark's rule,
    ``GetViewColumnByNameAndOrdinal``). Raises SchemaMismatchError where one is gone or another of its name came.
    """
    now: dict[str, list[int]] = {}
    for place, name in enumerate(found):
        now.setdefault(name.lower(), []).append(place)
    wanted: dict[str, int] = {}
    for name in outputs:
        wanted[name.lower()] = wanted.get(name.lower(), 0) + 1
    for name, count in wanted.items():
        if len(now.get(name, ())) != count:
            shown = f"columns called {name}" if name else "columns without a name"
            raise SchemaMismatchError(
                f"its query has {len(now.get(name, ()))} {shown}, and had {count} when it was made: CREATE OR REPLACE it"
            )
    used: dict[str, int] = {}
    chosen = []
    for name in (one.lower() for one in outputs):
        chosen.append(now[name][used.get(name, 0)])
        used[name] = used.get(name, 0) + 1
    return tuple(chosen)
