"""Figures measured in the background: what is measured anew, what is remembered, how conflicts are counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from hiveacid.core.compaction.advice import Need
from hiveacid.core.compaction.queue_records import Service
from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.errors import StoreUnavailableError
from hiveacid.web.figures import FigureKeeper
from support.busy_store import DATABASE, BusyStore
from support.web_site import SiteOf

T, U = TableName(DATABASE, "t"), TableName(DATABASE, "u")


@pytest.fixture
def keeper(quiet: BusyStore) -> FigureKeeper:
    quiet.store.create_database(DatabaseDefinition(DATABASE, str(quiet.root / DATABASE)))
    for name in (T, U):
        quiet.table(name)
        quiet.commit(name, 5)
    made = SiteOf(quiet.store).keeper
    made.turn()
    return made


def test_only_what_changed_is_measured_again(keeper: FigureKeeper, quiet: BusyStore) -> None:
    quiet.advance(600)
    keeper.turn()
    first = {name: one.measured for name, one in keeper.overview.tables.items()}
    quiet.advance(600)
    quiet.commit(T, 7, 2)
    keeper.turn()
    tables = keeper.overview.tables
    assert tables[U].measured == first[U]
    assert tables[T].measured != first[T]
    figures = tables[T].figures
    assert figures is not None
    assert (figures.deltas, figures.files, figures.rows, figures.deletes, figures.live_rows) == (
        3,
        3,
        12,
        2,
        10,
    )
    keeper.ask_for(U)
    keeper.turn()
    assert keeper.overview.tables[U].measured != first[U]


def test_dropped_tables_go_and_new_ones_come(keeper: FigureKeeper, quiet: BusyStore) -> None:
    quiet.store.drop_table(U)
    quiet.table(TableName(DATABASE, "v"))
    keeper.turn()
    assert sorted(name.name for name in keeper.overview.tables) == ["t", "v"]
    assert sorted(name.name for name in keeper._fingerprints) == ["t", "v"]


def test_a_count_is_known_although_another_thread_forgets_all_of_them(
    keeper: FigureKeeper, quiet: BusyStore
) -> None:
    class Forgetful(dict[tuple[str, int], int | None]):
        def __setitem__(self, key: tuple[str, int], value: int | None) -> None:
            self.clear()

    keeper._measurer._rows = Forgetful()
    quiet.commit(T, 7)
    keeper.refresh(T)
    figures = keeper.overview.tables[T].figures
    assert figures is not None
    assert figures.rows == 12


def test_the_advice_follows_the_initiator(keeper: FigureKeeper, quiet: BusyStore) -> None:
    for _ in range(11):
        quiet.commit(T, 1)
    quiet.advance(60)
    keeper.turn()
    assert "by hand, because no initiator runs" in keeper.overview.tables[T].advice.text
    quiet.store.announce_service(Service("host.initiator", "initiator"))
    keeper.turn()
    assert keeper.overview.tables[T].advice.text.startswith("Due, and queued soon")


def test_damaged_files_are_told_with_the_table(keeper: FigureKeeper, quiet: BusyStore) -> None:
    (quiet.root / DATABASE / "t" / "delta_1_0").mkdir()
    (quiet.root / DATABASE / "t" / "delta_1_0" / "bucket_00000").write_bytes(b"x")
    keeper.refresh(T)
    advice = keeper.overview.tables[T].advice
    assert advice.need is Need.FAILING
    assert "delta_1_0" in advice.text


def test_rows_of_a_file_that_is_no_orc_are_unknown(keeper: FigureKeeper, quiet: BusyStore) -> None:
    next((quiet.root / DATABASE / "t").rglob("bucket_00000")).write_bytes(b"not orc")
    keeper.refresh(T)
    figures = keeper.overview.tables[T].figures
    assert figures is not None
    assert (figures.rows, figures.deleted_share, figures.files) == (None, None, 1)


def test_conflicts_are_counted_from_the_first_turn_on(keeper: FigureKeeper, quiet: BusyStore) -> None:
    quiet.conflict(T)
    keeper.turn()
    quiet.conflict(U)
    keeper.turn()
    keeper.turn()
    samples = keeper.overview.samples
    assert [sample.conflicts for sample in samples] == [0, 1, 2, 2]
    assert samples[-1].begun - samples[0].begun == 4


@dataclass
class Away:
    """A store that is away when it is told to be."""

    store: Any
    is_away: bool = field(default=False)

    def __getattr__(self, name: str) -> Any:
        """Hand the call on."""
        if self.is_away:
            raise StoreUnavailableError("the store is away")
        return getattr(self.store, name)


def test_the_first_page_goes_on_without_the_store(quiet: BusyStore) -> None:
    quiet.fill()
    away = Away(quiet.store)
    site = SiteOf(away)
    site.keeper.turn()
    away.is_away = True
    site.keeper.start()
    site.keeper.close()
    page = site.html("/")
    assert "The figures are not up to date: <bdi>the store is away" in page
    assert "shop.orders" in page
    assert site.get("/transactions").status == 503


def test_a_table_that_is_written_all_the_time_is_measured_once_a_minute(
    keeper: FigureKeeper, quiet: BusyStore
) -> None:
    measured = []
    for _ in range(9):
        quiet.advance(20)
        quiet.commit(T, 1)
        keeper.ask_for(T)
        keeper.turn()
        measured.append(keeper.overview.tables[T].measured)
    assert len(set(measured)) == 4
    quiet.compact(T, "wait")
    keeper.turn()
    assert keeper.overview.tables[T].advice.need is Need.RUNNING
