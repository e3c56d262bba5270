"""Events of OpenLineage about commits, and where they go. Imports the library, which is an extra.

A commit is a run that is complete. Its job has the name of what it did to which tables, so that the runs of one pipeline
are of one job.
"""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.base import DatasetFacet, JobFacet, OutputDatasetFacet, RunFacet
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.sql_job import SQLJobFacet
from openlineage.client.transport import Transport
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport

from hiveacid.core.model import WriteId
from hiveacid.core.transactions.commit_records import OperationSummary, TableOperation
from hiveacid.transactions.pending_commit import ReportedCommit

_PRODUCER = "urn:hiveacid"
_READING_VERBS = frozenset({"UPDATE", "DELETE", "MERGE"})
"""Operations that read the table which they change."""


@attr.define
class CommitRunFacet(RunFacet):
    """User, client and transaction of a commit."""

    transaction: int
    user: str
    host: str
    agent: str


@attr.define
class ChangedRowsOutputDatasetFacet(OutputDatasetFacet):
    """Changes of a table in a commit; a number is None if it was not counted."""

    operation: str | None
    inserted: int | None
    updated: int | None
    deleted: int | None


def open_transport(target: str) -> Transport:
    """Return the transport of a target, a URL that `parse_lineage_target` accepts.

    A file gets a line for each event. HTTP: the variable OPENLINEAGE_API_KEY is sent as a bearer token.
    """
    parts = urlsplit(target)
    if parts.scheme == "file":
        return FileTransport(FileConfig(unquote(parts.path), append=True))
    key = os.environ.get("OPENLINEAGE_API_KEY")
    config: dict[str, object] = {"url": f"{parts.scheme}://{parts.netloc}", "retry": {"total": 2}}
    if parts.path.strip("/"):
        config["endpoint"] = parts.path.lstrip("/")
    if key:
        config["auth"] = {"type": "api_key", "apiKey": key}
    return HttpTransport(HttpConfig.from_dict(config))


def make_event(namespace: str, commit: ReportedCommit) -> RunEvent:
    """Return the event of a commit."""
    written = {operation.table: operation.summary for operation, _ in commit.writes}
    read = {name for name in commit.reads if name not in written or _reads_itself(written[name])}
    statements = [summary.statement for summary in written.values() if summary.statement]
    job_facets: dict[str, JobFacet] = {
        "jobType": JobTypeJobFacet("BATCH", "HIVEACID", "COMMIT", producer=_PRODUCER)
    }
    if statements:
        text = ";\n".join(dict.fromkeys(statements))
        job_facets["sql"] = SQLJobFacet(text, dialect="spark", producer=_PRODUCER)
    client = commit.client
    run_facets: dict[str, RunFacet] = {
        "hiveacid_commit": CommitRunFacet(
            int(commit.txn_id), client.user, client.host, client.agent, producer=_PRODUCER
        )
    }
    job = ", ".join(f"{(summary.operation or 'change').lower()} {name}" for name, summary in written.items())
    return RunEvent(
        eventTime=datetime.fromtimestamp(commit.at / 1000, UTC).isoformat(timespec="milliseconds"),
        eventType=RunState.COMPLETE,
        producer=_PRODUCER,
        run=Run(str(uuid.uuid4()), run_facets),
        job=Job(namespace, job, job_facets),
        inputs=[InputDataset(namespace, str(name)) for name in sorted(read | commit.sources, key=str)],
        outputs=[_output(namespace, operation, write_id) for operation, write_id in commit.writes],
    )


def _reads_itself(summary: OperationSummary) -> bool:
    return not _READING_VERBS.isdisjoint((summary.operation or "").split(", "))


def _output(namespace: str, operation: TableOperation, write_id: WriteId | None) -> OutputDataset:
    summary = operation.summary
    facets: dict[str, DatasetFacet] = {}
    if write_id is not None:
        facets["version"] = DatasetVersionDatasetFacet(str(int(write_id)), producer=_PRODUCER)
    counted = None not in (summary.inserted, summary.updated)
    rows = (summary.inserted or 0) + (summary.updated or 0) if counted else None
    statistics = OutputStatisticsOutputDatasetFacet(rows, summary.bytes, summary.files, producer=_PRODUCER)
    changed = ChangedRowsOutputDatasetFacet(
        summary.operation, summary.inserted, summary.updated, summary.deleted, producer=_PRODUCER
    )
    output_facets: dict[str, OutputDatasetFacet] = {
        "outputStatistics": statistics, "hiveacid_changedRows": changed,
    }  # fmt: skip
    return OutputDataset(namespace, str(operation.table), output_facets, facets=facets)
