"""Check of a table's invariants that reads every row, after the checks of `check_files`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar
from urllib.parse import unquote

from pyspark.sql import DataFrame

from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.snapshot.check_findings import (
    EventFacts,
    Finding,
    FindingKind,
    check_events,
    sorted_findings,
)
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState
from hiveacid.errors import FormatError, HiveAcidError
from hiveacid.orc.acid_footer import event_facts_of_footer
from hiveacid.spark.read import row_statistics as rows
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.storage.paths import spark_path
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.check_files import FileChecks, UsedFile, check_files, plain_path
from hiveacid.table.context import Context
from hiveacid.table.read.inventory import LocationInventory, TableInventory
from hiveacid.table.read.table_snapshot import scan_locations
from hiveacid.transactions.transaction import Transaction

T = TypeVar("T")
_MAX_BAD_FILES = 20  # unreadable files after which a plan is given up


def check_table(context: Context, inventory: TableInventory, txn: Transaction) -> tuple[Finding, ...]:
    """Run the checks of `check_quick`, and check every row of the files that can be opened.

    ``txn``: an open transaction, because of which the cleaner keeps the files.
    """
    checks = check_files(context, inventory)
    row_checks = _RowChecks(context, inventory, checks, txn)
    if inventory.table.kind is TableKind.FULL_ACID:
        row_checks.check_events()
    row_checks.check_rows()
    return sorted_findings(checks.findings)


@dataclass(frozen=True)
class _RowChecks:
    """The part of a check that reads rows."""

    context: Context
    found: TableInventory
    checks: FileChecks
    txn: Transaction

    @property
    def table(self) -> TableDefinition:
        return self.found.table

    @property
    def write_ids(self) -> ValidWriteIdList:
        return self.found.snapshot.write_ids

    def check_events(self) -> None:
        """Check the ACID columns of every file with row ids."""
        files = {used.path: used for used in self.checks.used if used.event and not used.limited}
        facts_by_path = self._attempt(partial(self._event_facts, files)) or {}
        for path, facts in facts_by_path.items():
            self.checks.findings += self._judge(files[plain_path(path)], facts)

    def _event_facts(self, files: Iterable[str]) -> dict[str, EventFacts]:
        readable = [spark_path(path) for path in files if path not in self.checks.bad]
        return rows.event_facts(self.context.env, readable)

    def _judge(self, file: UsedFile, facts: EventFacts) -> Iterator[Finding]:
        if file.event is None:
            return
        yield from check_events(file.event, facts, self.write_ids)
        tail = self.checks.tails[file.path]
        footer_facts = event_facts_of_footer(tail)
        for column in ("operation", "original", "current", "properties", "row_ids"):
            footer, truth = getattr(footer_facts, column), getattr(facts, column)
            if footer and truth and not (footer.low <= truth.low and truth.high <= footer.high):
                message = f"{column}: the footer says {footer}, the rows have {truth}"
                yield file.event.finding(FindingKind.WRONG_STATISTICS, message)
        if facts.rows != tail.number_of_rows:
            message = f"the footer says {tail.number_of_rows} rows, {facts.rows} were read"
            yield file.event.finding(FindingKind.UNREADABLE_FILE, message)

    def check_rows(self) -> None:
        """Read all values; find duplicate row ids, rows in wrong buckets and delete events without a row."""
        names = [c.name for c in self.table.columns]
        self._attempt(lambda: rows.decode_columns(self._rows(), names))
        if self.table.bucketing is not None:
            self._attempt(self._check_buckets)
        if self.table.kind is not TableKind.FULL_ACID:
            return
        if any(used.event is None and used.path in self.checks.bad for used in self.checks.used):
            message = "row ids: they are unknown where an original file cannot be read"
            self.checks.findings.append(Finding(FindingKind.NOT_CHECKED, self.table.location, message))
            return
        self._attempt(self._check_row_ids)

    def _rows(self) -> DataFrame:
        """Return all rows of the readable files, including deleted rows."""
        return scan_locations(self.context, self.table, list(self._locations()), self.write_ids, self.txn)

    def _check_buckets(self) -> None:
        version = self.table.bucketing_version
        for path, misplaced in rows.count_misplaced_rows(self.context.env, self.table, self._rows()).items():
            kind = (
                FindingKind.OTHER_HASH_BUCKET
                if misplaced.explained == misplaced.rows
                else FindingKind.WRONG_HASH_BUCKET
            )
            self._add(kind, plain_path(path), f"{misplaced.rows} rows by bucketing version {version}")

    def _check_row_ids(self) -> None:
        used = [file for file in self.checks.used if file.path not in self.checks.bad]
        places = rows.PartitionByFile(self.context.env, {file.path: file.place.root for file in used})
        inserts = places.of(self._rows())
        self._add_doubled(FindingKind.DUPLICATE_ROW_ID, rows.find_duplicate_row_ids(inserts))
        files = [spark_path(file.path) for file in used if file.event and file.event.is_delete]
        if not files:
            return
        deletes = places.of(rows.valid_delete_events(self.context.env, files, self.write_ids))
        # the deleted rows may be in a file that was not read
        unread = {one.place.root for one in self.checks.used if one.limited or one.path in self.checks.bad}
        for path, count in rows.count_orphan_deletes(inserts, deletes).items():
            location = self._place(plain_path(path))
            if location is not None and location.root in unread:
                continue
            state = location.inventory.state if location and location.inventory else None
            kind = (
                FindingKind.OLD_DELETE
                if state is not None and state.base is not None
                else FindingKind.ORPHAN_DELETE
            )
            self._add(kind, plain_path(path), f"{count} events")
        self._add_doubled(FindingKind.DOUBLE_DELETE, rows.find_duplicate_row_ids(deletes))

    def _add_doubled(self, kind: FindingKind, duplicates: Sequence[rows.DuplicateRowIds]) -> None:
        names = {location.root: location.name for location in self.found.locations}
        for duplicate in duplicates:
            message = (
                f"{duplicate.ids} ids; one is (write id {duplicate.sample[0]}, {duplicate.sample[1]}, "
                f"{duplicate.sample[2]})"
            )
            self.checks.findings.append(Finding(kind, duplicate.place, message, names.get(duplicate.place)))

    # locations and files -------------------------------------------------------------------------

    def _locations(self) -> Iterator[Location]:
        """Yield the locations without their delete events and without unreadable files."""
        partitions = {partition.location.rstrip("/"): partition for partition in self.found.partitions or ()}
        skipped = {used.path for used in self.checks.used if used.limited} | self.checks.bad
        for location in self.found.locations:
            if location.inventory is None:
                continue
            if self.table.kind is TableKind.PLAIN:
                files = [
                    entry.file
                    for entry in self.checks.used
                    if entry.place is location and entry.path not in skipped
                ]
                state = AcidState(None, (), (), tuple(files))
            elif location.inventory.state is None:
                continue
            else:
                state = _without(location.inventory.state, location.root, skipped)
            yield Location(location.root, state, partitions.get(location.root.rstrip("/")))

    # findings ------------------------------------------------------------------------------------

    def _attempt(self, run: Callable[[], T]) -> T | None:
        """Run a plan; if it fails on a file, add a finding and run it again without that file."""
        for _ in range(_MAX_BAD_FILES):
            try:
                with translate_errors():
                    return run()
            except FormatError as error:
                path = None if error.path is None else plain_path(unquote(error.path))  # of a URI
                if path is None or path in self.checks.bad or self._place(path) is None:
                    self._give_up(error)
                    return None
                self._add(FindingKind.UNREADABLE_FILE, path, str(error))
                self.checks.bad.add(path)
            except HiveAcidError as error:
                self._give_up(error)
                return None
        message = f"{_MAX_BAD_FILES} files cannot be read: the other rows were not checked"
        self.checks.findings.append(Finding(FindingKind.NOT_CHECKED, self.table.location, message))
        return None

    def _give_up(self, error: HiveAcidError) -> None:
        self.checks.findings.append(Finding(FindingKind.NOT_CHECKED, self.table.location, str(error)))

    def _add(self, kind: FindingKind, path: str, message: str) -> None:
        location = self._place(path)
        self.checks.findings.append(Finding(kind, path, message, location.name if location else None))

    def _place(self, path: str) -> LocationInventory | None:
        return next((p for p in self.found.locations if path.startswith(p.root.rstrip("/") + "/")), None)


def _without(state: AcidState, root: str, skipped: set[str]) -> AcidState:
    def kept(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
        return tuple(file for file in files if f"{root}/{file.path}" not in skipped)

    def cut(directory: AcidDirectory) -> AcidDirectory:
        return replace(directory, files=kept(directory.files))

    return replace(
        state,
        base=None if state.base is None else cut(state.base),
        deltas=tuple(map(cut, state.deltas)),
        delete_deltas=(),
        originals=kept(state.originals),
    )
