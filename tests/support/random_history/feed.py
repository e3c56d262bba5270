"""A table's past under random statements: its changes replay to every snapshot taken on the way, `as_of` reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.errors import NotEnoughHistoryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from hiveacid.table.acid_table import AcidTable
    from support.random_history.model import Model

_GONE, _CAME = ("delete", "update_before"), ("insert", "update_after")


@dataclass(frozen=True)
class Point:
    """A point in the table's time, and what it held."""

    write_ids: str
    moment: int  # ms since the epoch
    rows: Mapping[int, Mapping[str, Any]]

    def counted(self, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row.get(column) for column in columns) for row in self.rows.values())


@dataclass
class Feed:
    """Points of the past; those before ``kept_from`` may be gone."""

    points: list[Point] = field(default_factory=list)
    kept_from: int = 0

    def note(self, table: AcidTable, model: Model, *, lost: bool) -> None:
        """Remember the present; ``lost``: what came before it may have been cleaned."""
        if lost:
            self.kept_from = len(self.points)
        moment = table.context.store.now()
        self.points.append(Point(table.valid_write_ids(), moment, model.copy().rows))

    def check(self, table: AcidTable, model: Model, random: Random) -> None:
        """Replay from the earliest point that must be there to the present, and from any point to any other."""
        columns = model.all_columns
        self._replay(table, columns, self.kept_from, len(self.points) - 1)
        first, last = sorted((random.randrange(len(self.points)), random.randrange(len(self.points))))
        for place in sorted({self.kept_from, first, last}):
            self._read(table, columns, place, random)
        net, key = random.random() < 0.5, ["n"] if random.random() < 0.6 else []
        try:
            self._replay(table, columns, first, last, net=net, key=key)
        except NotEnoughHistoryError as error:
            earliest = error.earliest
            if first >= self.kept_from or earliest is None:
                raise
            table.changes(after=earliest).to_df()  # does not raise

    def _read(self, table: AcidTable, columns: Sequence[str], place: int, random: Random) -> None:
        """Read the table as it was: at a moment, or after the last write id of then."""
        point = self.points[place]
        moment = datetime.fromtimestamp(point.moment / 1000, UTC)
        last = int(parse_write_id_list(point.write_ids).high_watermark)
        past = table.as_of(timestamp=moment) if random.random() < 0.7 else table.as_of(last)
        try:
            found = past.scan(columns=columns).to_df().collect()
        except NotEnoughHistoryError as error:
            if place >= self.kept_from or error.since is None:
                raise
            table.as_of(timestamp=error.since).to_df().collect()  # does not raise
            return
        assert Counter(tuple(row) for row in found) == point.counted(columns), (
            f"as of {moment} ({point.write_ids})"
        )

    def _replay(
        self,
        table: AcidTable,
        columns: Sequence[str],
        first: int,
        last: int,
        *,
        net: bool = False,
        key: Any = (),
    ) -> None:
        after, until = self.points[first], self.points[last]
        frame = table.changes(after.write_ids, until.write_ids, net=net, key=key).to_df()
        changes = sorted(frame.collect(), key=lambda row: (row["_write_id"], row["_change_type"] in _CAME))
        between = [self.points[last]] if net else self.points[first : last + 1]
        for point in between:
            seen = parse_write_id_list(point.write_ids)
            state = after.counted(columns)
            for change in changes:
                if seen.is_valid(change["_write_id"]):
                    row = tuple(change[column] for column in columns)
                    state[row] += 1 if change["_change_type"] in _CAME else -1
                    assert state[row] in (0, 1), (change, "a row that was not there, or was there already")
            assert +state == point.counted(columns), (
                f"changes between {after.write_ids} and {until.write_ids}"
            )
        if key and not net:
            _check_pairs(changes)


def _check_pairs(changes: Sequence[Any]) -> None:
    kinds: dict[tuple[int, int], Counter[str]] = {}
    for change in changes:
        kinds.setdefault((change["_write_id"], change["n"]), Counter())[change["_change_type"]] += 1
    pair = Counter({"update_before": 1, "update_after": 1})
    assert all(found in (Counter({"insert": 1}), Counter({"delete": 1}), pair) for found in kinds.values())
