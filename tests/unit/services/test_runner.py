"""Services that run by themselves, and what a monitor sees of them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPConnection
from io import StringIO
from typing import Any

import pytest
from scene import Scene, T

from hiveacid.cli.processes import log_to
from hiveacid.core.compaction.initiation_and_retry_policy import LocationSizes
from hiveacid.core.compaction.queue_records import CompactionRequest, Service
from hiveacid.errors import ConfigError, StorageError, StoreUnavailableError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import TxnKind
from hiveacid.services.monitoring import Endpoint, collect, format_metrics, health
from hiveacid.services.runner import LoopState, Runner
from hiveacid.storage.local_file_system import LocalFileSystem
from support.samples import CLIENT


def until(true: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    for _ in range(30_000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("nothing happened")


def text_of(scene: Scene, **loops: LoopState) -> dict[str, float]:
    """Return the metrics of a store as Prometheus reads them."""
    lines = format_metrics(collect(scene.services(), loops)).decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}


def test_services_go_on_until_they_are_stopped(scene: Scene) -> None:
    scene.table()
    for name in ("hive.compactor.check.interval", "hive.compactor.cleaner.run.interval"):
        scene.set(name, "1ms")
    for _ in range(11):
        scene.write()
    services = scene.services()
    with Runner(services) as runner:
        until(lambda: scene.states() == [(1, "initiated")])
        until(lambda: all(loop.turns for loop in runner.loops.values()))
        assert {one.kind for one in scene.store.show_services(60)} == {"initiator", "cleaner", "housekeeper"}
        scene.compact()
        until(lambda: scene.states() == [(1, "succeeded")])
        assert not runner.wait(0)
    assert runner.wait(0)
    assert scene.store.show_services(60) == ()
    assert [name.partition("_v")[0] for name in scene.listing()] == ["base_0000011"]


def test_a_turn_that_fails_does_not_end_a_service(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.set("hive.compactor.check.interval", "1ms")
    services = scene.services(cleaner=False, housekeeper=False)
    turns = iter([StoreUnavailableError("away"), RuntimeError("a mistake")])
    monkeypatch.setattr(services.initiator.__class__, "step", lambda _: _raise_next(turns))
    with Runner(services) as runner:
        until(lambda: any(loop.turns for loop in runner.loops.values()))
        (loop,) = runner.loops.values()
    assert (loop.failures, loop.error) == (2, None)


def test_what_cannot_be_cleaned_is_counted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nobody hears of it: the cleaner goes on with everything else."""
    scene.table()
    scene.write()
    scene.compact()

    def fail(_: LocalFileSystem, path: str, _entries: object) -> None:
        raise StorageError(f"{path} is on fire")

    monkeypatch.setattr(LocalFileSystem, "delete_listed", fail)
    with Runner(scene.services(initiator=False, housekeeper=False)) as runner:
        until(lambda: all(loop.failures == 1 for loop in runner.loops.values()))
        (loop,) = runner.loops.values()
    assert "1 could not be cleaned: compaction 1 of default.t: " in (loop.error or "")


def _raise_next(errors: object) -> list[object]:
    error = next(errors, None)  # type: ignore[call-overload]
    if error is not None:
        raise error
    return []


def test_who_is_well() -> None:
    busy = LoopState("worker", 10.0, began=1_000_000)
    asleep = LoopState("cleaner", 10.0, turns=1, last=1_000_000)
    assert health({"w": busy, "c": asleep}, 1_030_000)[0]
    assert not health({"c": asleep}, 1_030_001)[0]
    assert not health({"c": replace(asleep, error="away")}, 1_000_000)[0]
    well, report = health({"w": busy}, 10**9)
    assert well
    assert json.loads(json.dumps(report))["services"]["w"]["kind"] == "worker"


def ask(port: int, path: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_a_monitor_asks_over_http(scene: Scene) -> None:
    services = scene.services(cleaner=False, housekeeper=False)
    runner = Runner(services)
    services.context = replace(services.context, clock=SystemClock())
    with Endpoint(0) as endpoint:
        assert json.loads(ask(endpoint.port, "/health")[1])["status"] == "starting"
        runner.start()
        endpoint.attach(services, runner)
        assert json.loads(ask(endpoint.port, "/health")[1])["status"] == "ok"
        status, metrics = ask(endpoint.port, "/metrics?now")
        assert (status, b"compaction_num_initiated 0.0" in metrics) == (200, True)
        assert ask(endpoint.port, "/secrets")[0] == 404
        with pytest.raises(ConfigError, match="cannot be listened on"):
            Endpoint(endpoint.port)
        runner.stop()


def test_metrics_have_hive_s_names(scene: Scene) -> None:
    scene.table(partitions=("1",))
    scene.set("hive.compactor.delta.num.threshold", "5")
    for _ in range(2):
        scene.write(T, "p=1", end="abort")
    scene.write(T, "p=1")
    scene.compact(T, "p=1")
    for state in ("failed", "working"):
        made = scene.store.enqueue_compaction(CompactionRequest(T, "p=2", "minor", pool="night"), "x")
        scene.store.claim_compaction("w", made.id)
        if state == "failed":
            scene.store.end_compaction(made.id, state)
    scene.store.decline_compaction(CompactionRequest(T, "p=3", "minor"), "x", "no")
    scene.store.enqueue_compaction(CompactionRequest(T, "p=4", "minor"), "x")
    scene.store.announce_service(Service("h-1.worker0", "worker", "night", "1"))
    scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    scene.clock.advance(7)
    found = text_of(scene, c=LoopState("cleaner", 5.0, turns=4, failures=1, seconds=0.5))
    assert {
        "compaction_num_initiated": 1,
        "compaction_num_working": 1,
        "compaction_num_ready_for_cleaning": 1,
        "compaction_num_succeeded": 0,
        "compaction_num_failed": 1,
        "compaction_num_did_not_initiate": 1,
        "compaction_num_refused": 0,
        "compaction_num_aborted": 0,
        "compaction_oldest_enqueue_age_in_sec": 7,
        "compaction_oldest_working_age_in_sec": 7,
        "compaction_oldest_cleaning_age_in_sec": 7,
        "oldest_ready_for_cleaning_age_in_sec": 7,
        'compaction_pools_initiated_item_count{pool="default"}': 1,
        'compaction_pools_working_item_count{pool="night"}': 1,
        'compaction_pools_oldest_enqueue_age_in_sec{pool="default"}': 7,
        'compaction_pools_oldest_working_age_in_sec{pool="night"}': 7,
        "compaction_num_initiators": 0,
        "compaction_num_workers": 1,
        "compaction_num_worker_versions": 1,
        "num_open_transactions": 1,
        "num_open_non_repl_transactions": 1,
        "oldest_open_non_repl_txn_id": 5,
        "oldest_open_non_repl_txn_age_in_sec": 7,
        "num_aborted_transactions": 2,
        "oldest_aborted_txn_id": 1,
        "oldest_aborted_txn_age_in_sec": 7,
        "tables_with_x_aborted_transactions": 0,
        "num_locks": 0,
        "oldest_lock_age_in_sec": 0,
        'compaction_cleaner_cycle_total{service="c"}': 4,
        'compaction_cleaner_cycle_duration{service="c"}': 0.5,
        'compaction_cleaner_failure_counter_total{service="c"}': 1,
    }.items() <= found.items()


def test_the_initiator_s_last_look_is_a_metric(scene: Scene) -> None:
    scene.table()
    scene.write(size=1000)
    scene.compact(size=1000)
    scene.write(size=1)
    services = scene.services()
    assert services.initiator is not None
    services.initiator.step()
    lines = format_metrics(collect(services, {})).decode()
    for name, count in (("active", 1), ("small", 1), ("obsolete", 1)):
        labels = '{database="default",partition="",table="t"}'
        assert f"compaction_num_{name}_deltas{labels} {count}.0" in lines


class Growing(LocationSizes):
    """Sizes whose reader meets another thread that notes those of a further table."""

    figures: dict[tuple[str, str, str], LocationSizes]

    def __getattribute__(self, name: str) -> Any:
        """Note a further table at the first look."""
        if name == "deltas":
            self.figures["default", f"t{len(self.figures)}", ""] = LocationSizes(0, 0, 1)
        return super().__getattribute__(name)


def test_metrics_are_told_while_the_initiator_looks_at_a_further_table(scene: Scene) -> None:
    services = scene.services()
    assert services.initiator is not None
    growing = Growing(0, 0, 1)
    object.__setattr__(growing, "figures", services.initiator.figures)
    services.initiator.figures["default", "t", ""] = growing
    assert 'compaction_num_active_deltas{database="default",partition="",table="t"} 1.0' in (
        format_metrics(collect(services, {})).decode()
    )


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_log(style: str) -> None:
    stream = StringIO()
    handler = log_to(stream, style, "info")
    logger = logging.getLogger("hiveacid.services.test")
    try:
        try:
            raise ValueError("x")  # noqa: TRY301
        except ValueError:
            logger.info("said %s", "ü", exc_info=True)
        logger.debug("not said")
    finally:
        logging.getLogger("hiveacid").removeHandler(handler)
        logging.getLogger("hiveacid").setLevel(logging.NOTSET)
    if style == "json":
        line = json.loads(stream.getvalue())
        assert (line["message"], line["level"], line["logger"]) == ("said ü", "info", logger.name)
        assert "ValueError: x" in line["error"]
    else:
        assert "INFO    said ü" in stream.getvalue()
    assert "not said" not in stream.getvalue()


def test_two_services_never_have_one_name(scene: Scene) -> None:
    """Two containers with their host's network have one host name, and both are process 1."""
    assert scene.services().name != scene.services().name
