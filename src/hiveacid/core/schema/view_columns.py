"""Mapping of a view's columns to those of its query after the tables below it have changed."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.errors import SchemaMismatchError


def match_output_columns(outputs: Sequence[str], found: Sequence[str]) -> tuple[int, ...]:
    """Return the present position of each column that the query had when the view was created.

    Names are compared without case. Of several columns with one name, the n-th then is the n-th now; '' is the name of
    columns without one. New columns are ignored, so that ``SELECT *`` shows the same columns as before (Spark's rule,
    ``GetViewColumnByNameAndOrdinal``). Raises SchemaMismatchError if the number of columns with a name has changed.
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
