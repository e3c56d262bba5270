"""Writers beside TRUNCATE, INSERT OVERWRITE and DROP PARTITION: what both report as done is there in a serial order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hiveacid.core.transactions.locks_and_conflicts import (
    WAITS_FOR,
    LockComponent,
    LockState,
    LockType,
    must_wait,
)
from hiveacid.errors import WriteConflictError
from hiveacid.streaming import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.core.model import LockId
    from hiveacid.ports.transactions import LockAnswer

WAIT = 60  # seconds, for a machine under load
EXCLUDING: Mapping[str, str] = {"hive.txn.xlock.write": "true"}
SETTINGS: Sequence[Mapping[str, str]] = ({}, EXCLUDING, {**EXCLUDING, "hive.txn.xlock.iow": "false"})
ROWS = [(1, "a"), (2, "a"), (3, "b")]
Rows = list[tuple[int, str]]
Run = Callable[["AcidSession", Path], object]


def _append(acid: AcidSession, _: Path) -> object:
    return acid.table("t").insert(acid.context.env.spark.createDataFrame([(10, "a")], "id int, p string"))


def _stream(acid: AcidSession, _: Path) -> object:
    with Connection("t", store=acid.context.store, settings=_settings(acid), partition={"p": "a"}) as stream:
        with stream.transaction():
            stream.write(pa.table({"id": pa.array([10], pa.int32())}))
        return stream


def _load(acid: AcidSession, directory: Path) -> object:
    rows = acid.context.env.spark.sql("SELECT CAST(10 AS INT) AS id").coalesce(1)
    rows.write.mode("overwrite").orc(f"{directory}/load")
    return acid.sql(f"LOAD DATA INPATH '{directory}/load' INTO TABLE t PARTITION (p='a')")


def _settings(acid: AcidSession) -> dict[str, str]:
    return {name: acid.context.settings.text(name) for name in ("hive.txn.xlock.write", "hive.txn.xlock.iow")}


WRITERS: Mapping[str, Run] = {
    "INSERT": lambda acid, _: acid.sql("INSERT INTO t PARTITION (p='a') VALUES (10)"),
    "append": _append,
    "stream": _stream,
    "LOAD": _load,
    "UPDATE": lambda acid, _: acid.sql("UPDATE t SET id = 10 WHERE id = 1"),
}
WRITTEN: Mapping[str, Callable[[Rows], Rows]] = {
    **dict.fromkeys(WRITERS, lambda rows: sorted([*rows, (10, "a")])),
    "UPDATE": lambda rows: sorted((10 if number == 1 else number, p) for number, p in rows),
}
REMOVERS: Mapping[str, tuple[str, Callable[[Rows], Rows]]] = {
    "TRUNCATE": ("TRUNCATE TABLE t PARTITION (p='a')", lambda rows: [row for row in rows if row[1] != "a"]),
    "OVERWRITE": (
        "INSERT OVERWRITE TABLE t PARTITION (p='a') VALUES (5)",
        lambda rows: sorted([*(row for row in rows if row[1] != "a"), (5, "a")]),
    ),
    "DROP": ("ALTER TABLE t DROP PARTITION (p='a')", lambda rows: [row for row in rows if row[1] != "a"]),
}
RESTORE: Mapping[str, tuple[str, Callable[[Rows], Rows]]] = {
    "RESTORE": ("RESTORE TABLE t TO VERSION AS OF 1", lambda _: ROWS)
}


class Meeting:
    """Holds a writer back before its commit until the other statement waits for its lock, or has ended."""

    def __init__(self, writer: AcidSession, remover: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ready, self.go_on = threading.Event(), threading.Event()
        self.waited = False
        commit, check = writer.context.store.commit_txn, remover.context.store.check_lock

        def commit_later(*arguments: Any, **named: Any) -> None:
            if not self.ready.is_set() and any(
                getattr(one, "table", None) for one in _written(arguments, named)
            ):
                self.ready.set()
                assert self.go_on.wait(WAIT)
            commit(*arguments, **named)

        def note_wait(lock_id: LockId) -> LockAnswer:
            answer = check(lock_id)
            if answer.state is LockState.WAITING:
                self.waited = True
                self.go_on.set()
            return answer

        monkeypatch.setattr(writer.context.store, "commit_txn", commit_later)
        monkeypatch.setattr(remover.context.store, "check_lock", note_wait)


def _written(arguments: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
    return named.get("written", arguments[2] if len(arguments) > 2 else ())


@pytest.fixture
def sessions(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., AcidSession]]:
    import hiveacid  # noqa: PLC0415

    made: list[AcidSession] = []

    def session(settings: Mapping[str, str]) -> AcidSession:
        made.append(hiveacid.connect(spark, warehouse=str(tmp_path / "wh"), settings=dict(settings)))
        return made[-1]

    yield session
    for one in made:
        one.close()


def rows_of(acid: AcidSession) -> Rows:
    return sorted((row.id, row.p) for row in acid.sql("SELECT id, p FROM t").collect())


def fill(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE t (id INT) PARTITIONED BY (p STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO t VALUES (1,'a'),(2,'a'),(3,'b')")


@pytest.mark.parametrize(
    ("write", "remove"), [*product(WRITERS, REMOVERS), *product(("INSERT", "stream", "UPDATE"), RESTORE)]
)
def test_a_writer_and_a_remover_are_in_a_serial_order(
    sessions: Callable[..., AcidSession],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: str,
    remove: str,
) -> None:
    """The two sessions differ in what they set: the weakest pair that there was."""
    writer, remover = sessions(EXCLUDING), sessions({})
    fill(writer)
    statement, removed = {**REMOVERS, **RESTORE}[remove]
    meeting = Meeting(writer, remover, monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(WRITERS[write], writer, tmp_path)
        assert meeting.ready.wait(WAIT)
        removing = pool.submit(remover.sql, statement)
        removing.add_done_callback(lambda _: meeting.go_on.set())
        orders = {(True, True): [removed(WRITTEN[write](ROWS)), WRITTEN[write](removed(ROWS))]}
        done = _succeeds(writing), _succeeds(removing)
    orders |= {(True, False): [WRITTEN[write](ROWS)], (False, True): [removed(ROWS)]}
    assert meeting.waited
    assert rows_of(sessions({})) in orders[done]


def _succeeds(statement: Any) -> bool:
    try:
        statement.result(WAIT)
    except WriteConflictError:
        return False
    return True


def test_each_pair_waits_for_each_other_whatever_both_sessions_set(
    sessions: Callable[..., AcidSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sessions({}))
    asked: dict[tuple[str, int], list[LockComponent]] = {}
    runs = {**WRITERS, **{name: _statement(text) for name, (text, _) in REMOVERS.items()}}
    for number, settings in enumerate(SETTINGS):
        acid = sessions(settings)
        for name, run in runs.items():
            taken = asked[name, number] = []
            _note_locks(acid, taken, monkeypatch)
            run(acid, tmp_path)
    numbers = range(len(SETTINGS))
    for write, remove, mine, other in product(WRITERS, REMOVERS, numbers, numbers):
        ours, theirs = asked[write, mine], asked[remove, other]
        assert any(must_wait(one, held) for one in ours for held in theirs), (write, remove, mine, other)
        assert any(must_wait(one, held) for one in theirs for held in ours), (remove, write, other, mine)
    assert LockType.SHARED_READ not in WAITS_FOR[LockType.EXCL_WRITE]  # why no writer may take it


def _statement(text: str) -> Run:
    return lambda acid, _: acid.sql(text)


def _note_locks(acid: AcidSession, taken: list[LockComponent], monkeypatch: pytest.MonkeyPatch) -> None:
    store = acid.context.store
    begin, lock = type(store).begin_txn, type(store).lock

    def begin_txn(client: Any, start: Any, *more: Any) -> Any:
        taken.extend(start.locks)
        return begin(store, client, start, *more)

    def lock_later(txn_id: Any, wanted: Sequence[LockComponent], **named: Any) -> Any:
        taken.extend(wanted)
        return lock(store, txn_id, wanted, **named)

    monkeypatch.setattr(store, "begin_txn", begin_txn)
    monkeypatch.setattr(store, "lock", lock_later)
