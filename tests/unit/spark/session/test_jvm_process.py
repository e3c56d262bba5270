"""The watch over a JVM that answers, is silent, answers again, or has ended."""

from __future__ import annotations

import threading

import pytest

from hiveacid.errors import HiveAcidError
from hiveacid.services.monitoring import Endpoint
from hiveacid.spark.session.jvm_process import LIVE_SECONDS, READY_SECONDS, JvmWatch

ENOUGH = 30.0


class Jvm:
    """A JVM that does what the test says; its watch takes steps when the test says so."""

    def __init__(self) -> None:
        self.answers = [True]
        self.steps = 0
        self.watch = JvmWatch(self.ask, self.pause)

    def ask(self) -> None:
        if not self.answers.pop(0):
            raise ConnectionRefusedError

    def pause(self, _: float) -> None:
        self.steps += 1
        if not self.answers:
            raise SystemExit

    def ask_for(self, *answers: bool) -> None:
        self.answers = list(answers)
        with pytest.raises(SystemExit):
            self.watch.ask_until_it_ends()


def silent_for(watch: JvmWatch, seconds: int) -> None:
    """Count seconds without an answer."""
    left = iter(range(seconds))

    def pause(_: float) -> None:
        if next(left, None) is None:
            raise SystemExit

    watch._pause = pause
    with pytest.raises(SystemExit):
        watch.count()


def test_silence_ends_readiness_then_liveness_then_the_process() -> None:
    jvm = Jvm()
    jvm.ask_for(True)
    silent_for(jvm.watch, int(READY_SECONDS) - 1)
    assert jvm.watch.answers(READY_SECONDS)
    silent_for(jvm.watch, 1)
    assert not jvm.watch.answers(READY_SECONDS)
    assert jvm.watch.answers(LIVE_SECONDS)
    silent_for(jvm.watch, 60)
    assert not jvm.watch.answers(LIVE_SECONDS)
    jvm.watch.require_alive()
    silent_for(jvm.watch, 60)
    with pytest.raises(HiveAcidError, match="has not answered for 130 seconds"):
        jvm.watch.require_alive()
    jvm.watch._pause = jvm.pause
    jvm.ask_for(True)
    jvm.watch.require_alive()


def test_a_broken_connection_is_not_the_end_and_three_failures_are() -> None:
    jvm = Jvm()
    jvm.ask_for(True, False, False, True)
    jvm.watch.require_alive()
    jvm.answers = [False, False, False, True]
    jvm.watch.ask_until_it_ends()
    assert not jvm.watch.answers(READY_SECONDS)
    with pytest.raises(HiveAcidError, match="has ended"):
        jvm.watch.require_alive()
    counting = threading.Thread(target=jvm.watch.count)
    counting.start()
    counting.join(ENOUGH)
    assert not counting.is_alive()


def test_probes_tell_of_a_silent_jvm() -> None:
    silence = 0.0
    with Endpoint(0) as endpoint:
        endpoint.report_server(list)
        endpoint.watch_jvm(lambda within: silence < within)
        found = {}
        for silence in (0.0, READY_SECONDS, LIVE_SECONDS):
            found[silence] = [endpoint._page(path).status for path in ("/live", "/ready", "/health")]
    assert found == {0.0: [200, 200, 200], READY_SECONDS: [200, 503, 503], LIVE_SECONDS: [503, 503, 503]}
