"""Figures recorded over time: how often, by whom, and what a page needs of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scene import Scene, T

from hiveacid.core.compaction.advice import FigureRecord, LocationFigures
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.errors import StoreUnavailableError
from hiveacid.services import steps
from hiveacid.services.steps import FigureRecorder, Housekeeper
from hiveacid.table.compaction.need import CompactedTable
from hiveacid.transactions.transaction import Heartbeats
from support.contexts import context_of

HOUR = 3600
U = TableName("default", "u")


def recorder(scene: Scene) -> FigureRecorder:
    """Return that of one more process."""
    context = context_of(scene.store, str(scene.root), scene.clock, Heartbeats(scene.store, 150.0))
    context.session.settings = scene.context.settings
    return FigureRecorder(context)


def made(scene: Scene, name: TableName = T) -> TableDefinition:
    found = scene.store.get_table(name)
    assert found is not None
    return found


def records(scene: Scene, name: TableName = T) -> list[FigureRecord]:
    return list(scene.store.recorded_figures(made(scene, name)))


def test_a_housekeeper_records_what_changed_once_an_hour(scene: Scene) -> None:
    scene.table()
    scene.table(U, partitions=("1", "2"))
    scene.table(TableName("default", "plain"), transactional="false")
    scene.write(size=10)
    scene.write(size=20, is_delete=True)
    scene.write(U, "p=1", size=5)
    scene.clock.advance(
        61
    )  # what was written just before is recorded once more: a commit may be seen a little later
    keeper = Housekeeper(scene.context)
    keeper.step()
    (first,) = records(scene)
    wanted = {"bytes": 30, "deltas": 2, "delete_deltas": 1, "files": 2, "small_files": 2, "rows": None}
    assert {name: first.figures[name] for name in wanted} == wanted
    (store,) = scene.store.recorded_figures(None)
    assert dict(store.figures) == {
        "bytes": 35, "deltas": 3, "delete_deltas": 1, "files": 3, "small_files": 3, "tables": 2, "begun": 3, "conflicts": 0,
    }  # fmt: skip
    for _ in range(59):  # each minute
        scene.clock.advance(60)
        scene.write()
        keeper.step()
    assert len(records(scene)) == 1
    scene.clock.advance(60)
    keeper.step()
    assert [one.figures["deltas"] for one in records(scene)] == [2, 61]
    assert len(records(scene, U)) == 1, "nothing was written there"
    assert len(scene.store.recorded_figures(None)) == 2
    scene.clock.advance(HOUR)
    scene.compact()
    keeper.step()
    assert [one.figures["deltas"] for one in records(scene)] == [2, 61, 0]


def test_two_services_do_not_record_twice(scene: Scene) -> None:
    """Neither one after the other, nor side by side."""
    scene.table()
    scene.write()
    services = [recorder(scene), recorder(scene)]
    assert [one.step() for one in services] == [1, 0]
    scene.clock.advance(HOUR)
    scene.write()
    found: list[int] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one.step())) for one in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1]
    assert len(records(scene)) == len(scene.store.recorded_figures(None)) == 2


def test_a_turn_also_ends_between_tables_that_take_long(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty with many partitions on an object store kept the housekeeper for hours, and a process from ending."""
    names = [TableName("default", f"t{number}") for number in range(3)]
    for name in names:
        scene.table(name)
    mine = recorder(scene)
    measure = mine._measurer.figures_of

    def slowly(*arguments: Any) -> LocationFigures:
        scene.clock.advance(6)
        return measure(*arguments)

    monkeypatch.setattr(mine._measurer, "figures_of", slowly)
    assert [mine.step() for _ in range(4)] == [1, 1, 1, 0]
    assert [len(records(scene, name)) for name in names] == [1, 1, 1]
    assert len(scene.store.recorded_figures(None)) == 1


def test_a_turn_ends_soon_and_the_next_one_goes_on(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that many tables do not keep the housekeeper from its other work; another process leaves them alone meanwhile."""
    monkeypatch.setattr(steps, "_RECORDS_AT_ONCE", 2)
    monkeypatch.setattr(steps, "_LONGEST_RECORDING", 0)
    names = [TableName("default", f"t{number}") for number in range(5)]
    for name in names:
        scene.table(name)
    mine, other = recorder(scene), recorder(scene)
    assert mine.step() == 0
    monkeypatch.setattr(steps, "_LONGEST_RECORDING", 1)
    record = scene.store.record_figures

    def slowly(found: Sequence[FigureRecord]) -> None:
        record(found)
        scene.clock.advance(1)

    monkeypatch.setattr(scene.store, "record_figures", slowly)
    assert [mine.step(), other.step(), mine.step()] == [2, 0, 2]
    assert scene.store.recorded_figures(None) == ()
    assert mine.step() == 1
    assert [one.figures["tables"] for one in scene.store.recorded_figures(None)] == [5]
    scene.clock.advance(HOUR)
    assert [other.step(), mine.step()] == [0, 0]


def test_what_another_process_did_not_come_to_is_recorded_next(scene: Scene) -> None:
    scene.table()
    scene.table(U)
    scene.write(U)
    lost = recorder(scene)
    assert scene.store.claim_figures(HOUR, HOUR)  # by a process that ended then
    assert lost.step() == 0
    scene.clock.advance(HOUR)
    assert lost.step() == 2


def test_a_table_that_changes_no_more_keeps_a_record(scene: Scene) -> None:
    """The retention drops it, and it is recorded anew."""
    scene.table()
    scene.write()
    keeper = recorder(scene)
    for _ in range(40):
        keeper.step()
        scene.clock.advance(24 * HOUR)
    assert len(records(scene)) == 1
    assert scene.clock.now() - records(scene)[0].time < 30 * 24 * HOUR * 1000


def test_a_renamed_table_takes_its_past_along_and_a_new_one_has_none(scene: Scene) -> None:
    scene.table()
    scene.write()
    scene.clock.advance(61)
    keeper = recorder(scene)
    keeper.step()
    scene.store.alter_table(T, replace(made(scene), name=U))
    assert len(records(scene, U)) == 1
    location = scene.root / "anew"
    location.mkdir()
    scene.store.create_table(replace(made(scene, U), name=T, location=str(location)))
    assert records(scene) == []
    scene.clock.advance(HOUR)
    assert keeper.step() == 1
    assert [one.figures["bytes"] for one in records(scene)] == [0]


def test_a_table_that_cannot_be_looked_at_is_left_out(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.table()
    scene.table(U)
    (Path(made(scene).location) / "delta_1_0").mkdir()
    scene.put(Path(made(scene).location) / "delta_1_0" / "more", 1)
    keeper = recorder(scene)
    assert keeper.step() == 1
    assert records(scene) == []
    assert "the figures of default.t cannot be recorded now" in caplog.text


def test_a_table_that_is_dropped_while_it_is_measured_does_not_count(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.table()
    scene.table(U)
    scene.write(size=10)
    scene.write(U, size=5)
    mine = recorder(scene)
    measure = mine._measurer.figures_of

    def dropping(table: CompactedTable, partition: str | None) -> LocationFigures:
        found = measure(table, partition)
        if table.definition.name == T:
            scene.store.drop_table(T)
        return found

    monkeypatch.setattr(mine._measurer, "figures_of", dropping)
    assert mine.step() == 2
    (store,) = scene.store.recorded_figures(None)
    assert (store.figures["tables"], store.figures["bytes"]) == (1, 5)


def test_tables_are_recorded_after_the_clock_was_ahead(scene: Scene) -> None:
    """A record of the year 2033 kept a table from being recorded until then."""
    scene.table()
    keeper = recorder(scene)
    scene.clock.advance(3650 * 24 * HOUR)
    scene.write()
    assert keeper.step() == 1
    scene.clock.advance(-3649 * 24 * HOUR)
    scene.write()
    assert keeper.step() == 1
    assert records(scene)[0].time == scene.clock.now()


def test_a_store_that_is_away_ends_the_turn(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.table()
    keeper = recorder(scene)

    def away(_: object) -> None:
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(scene.store, "get_table", away)
        with pytest.raises(StoreUnavailableError):
            keeper.step()
    scene.clock.advance(HOUR)
    assert keeper.step() == 1


def test_nothing_is_recorded_if_the_setting_says_so(scene: Scene) -> None:
    scene.table()
    scene.set("hiveacid.figures.interval", "0")
    assert recorder(scene).step() == 0
    assert records(scene) == []
    assert scene.store.claim_figures(HOUR, HOUR)
