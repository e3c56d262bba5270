"""Contexts: services that never change, and the state of a session."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from hiveacid.core.model import TableName
from hiveacid.ports.clock import SystemClock
from hiveacid.table.context import Context
from hiveacid.transactions.heartbeats import Heartbeats
from support.clock import ManualClock
from support.contexts import context_of
from support.memory_store.store import MemoryStore


@pytest.fixture
def context() -> Context:
    store = MemoryStore(clock=SystemClock())
    return context_of(store, "/w", SystemClock(), Heartbeats(store, 600.0))


def test_a_statement_has_a_context_of_its_own_and_the_state_of_its_session(context: Context) -> None:
    statement = replace(context, statement="SET hive.txn.timeout=900s")
    statement.change_settings(context.settings.with_value("hive.txn.timeout", "900s"))
    statement.session.database = "shop"
    assert context.settings is statement.settings
    assert context.transactions.heartbeats.interval == 450
    assert context.resolve("t") == TableName("shop", "t")
    assert context.statement is None


def test_a_view_or_service_with_a_state_of_its_own_leaves_that_of_the_session(context: Context) -> None:
    own = replace(context, session=replace(context.session, database="shop"))
    own.session.settings = context.settings.with_value("hive.txn.timeout", "900s")
    assert (own.resolve("t"), context.resolve("t")) == (TableName("shop", "t"), TableName("default", "t"))
    assert context.settings is not own.settings


def test_services_of_a_context_cannot_be_exchanged_under_those_that_hold_it(context: Context) -> None:
    with pytest.raises(FrozenInstanceError):
        context.clock = ManualClock()  # type: ignore[misc]
    other = context.with_transactions(replace(context.transactions, clock=ManualClock()))
    assert other.clock is other.transactions.clock is not context.clock
    assert other.read_leases is not context.read_leases
    assert other.session is context.session
