"""Actions of operators: compact, queue again, abort; each answers with a sentence, and leaves a line in the audit log.

They are the verbs of SQL and of the command line. A compaction is only queued: the workers of ``hiveacid services``, or of
a metastore, carry it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hiveacid import errors
from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.model import TableKind, TableName
from hiveacid.core.transactions.states import CompactionState
from hiveacid.serve.audit import audit
from hiveacid.sql.execute.show_rows import abort_transactions
from hiveacid.table.compaction.need import enqueue_for_user, load_table
from hiveacid.web.login import Visitor
from hiveacid.web.pages import RETRIED, Source
from hiveacid.web.query import Query

_MOST_JOBS = 1000
"""Partitions of which one action queues compactions."""
_LAST_ID = 10**18
_REASON = "aborted by an operator in hiveacid web"


def act(source: Source, visitor: Visitor, action: str, form: Mapping[str, str]) -> str:
    """Carry out an action of a visitor, who may; return what was done. Raises HiveAcidError."""
    try:
        done = ACTIONS[action](source, visitor, Query("", form))
    except errors.HiveAcidError as error:
        audit(f"web_{action}", visitor.user, visitor.host, error=str(error), **_subject(form))
        raise
    audit(f"web_{action}", visitor.user, visitor.host, done=done, **_subject(form))
    return done


def _subject(form: Mapping[str, str]) -> dict[str, str]:
    names = ("database", "table", "partition", "kind", "transaction", "compaction")
    return {name: form[name] for name in names if form.get(name)}


def _compact(source: Source, visitor: Visitor, form: Query) -> str:
    """Queue a compaction of a partition, or of all that have deltas."""
    name = TableName(form.text("database", needed=True), form.text("table", needed=True))
    kind = form.choice("kind", [CompactionKind.MAJOR, CompactionKind.MINOR], CompactionKind.MAJOR)
    table = load_table(source.access.catalog, source.settings, name)
    if table is None:
        raise errors.NoSuchTableError(f"table {name} does not exist")
    if table.definition.kind is TableKind.PLAIN:
        raise errors.NotTransactionalError(f"{name} is not transactional: there is nothing to compact")
    wanted = form.values.get("partition")
    if wanted:
        if wanted not in table.partitions:
            raise errors.NoSuchTableError(f"{name} has no partition {wanted}")
        chosen: list[str | None] = [wanted]
    else:
        known = source.keeper.overview.tables.get(name)
        deltas = {one.partition: one.figures.sizes.deltas for one in (known.locations if known else ())}
        chosen = [one for one in table.partitions if one is None or deltas.get(one, 1)][:_MOST_JOBS]
    queued, refused = 0, ""
    for partition in chosen:
        try:
            enqueue_for_user(source.store, table.request(partition, kind), f"web-{visitor.user}")
            queued += 1
        except errors.CompactionRefusedError as error:
            refused = str(error)
    source.keeper.refresh(name)
    if not queued:
        raise errors.CompactionRefusedError(refused or f"{name} has no partition with deltas")
    what = f"A {kind} compaction of {name}" if len(chosen) == 1 else f"{queued} {kind} compactions of {name}"
    return f"{what} {'is' if queued == 1 else 'are'} queued."


def _job(form: Query) -> int:
    return form.number("compaction", 1, _LAST_ID, 0)


def _retry(source: Source, visitor: Visitor, form: Query) -> str:
    """Queue a job again that ended without success."""
    number = _job(form)
    job = next((one for one in source.store.show_compactions() if one.id == number), None)
    if job is None:
        raise errors.CompactionError(f"compaction {number} does not exist")
    if job.state not in RETRIED:
        raise errors.CompactionError(
            f"compaction {number} is {job.state}: only one that ended without success is repeated"
        )
    again = enqueue_for_user(source.store, job.request, f"web-{visitor.user}")
    source.keeper.refresh(job.request.table)
    return f"Compaction {number} is queued again, as compaction {again.id}."


def _abort_compaction(source: Source, visitor: Visitor, form: Query) -> str:
    """Remove a waiting job from the queue."""
    del visitor
    number = _job(form)
    source.store.end_compaction(number, CompactionState.ABORTED, _REASON)
    for job in source.store.show_compactions():
        if job.id == number:
            source.keeper.refresh(job.request.table)
    return f"Compaction {number} is aborted."


def _abort(source: Source, visitor: Visitor, form: Query) -> str:
    """Abort an open transaction."""
    del visitor
    number = form.number("transaction", 1, _LAST_ID, 0)
    abort_transactions(source.store, [number])
    return f"Transaction {number} is aborted."


ACTIONS: Mapping[str, Callable[[Source, Visitor, Query], str]] = {
    "compact": _compact,
    "retry": _retry,
    "abort_compaction": _abort_compaction,
    "abort": _abort,
}
