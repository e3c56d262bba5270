"""What tests share: one Spark session per process, an empty warehouse per test, steady hypothesis profiles."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from support.corpus.golden_tables import Golden, unpack
from support.exhaustive import MARKS, examples, left_out
from support.file_order import places
from support.memory_limit import watch_memory
from support.quiet_spark import quiet_spark
from support.servers.absent import separate, skip_without
from support.servers.class_archive import LONG_LIVED, java_options
from support.servers.hadoop_jars import s3a_jars
from support.spark_leftovers import drop_leftovers, drop_own_tables, settings_of

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter
    from pyspark.sql import SparkSession
    from xdist.workermanage import WorkerController

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession
    from hiveacid.table.acid_table import AcidTable
    from support.servers.databases import Server

# The same examples in every run on CI, so that a red run can be repeated; fresh ones elsewhere.
settings.register_profile(
    "here", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

_SESSION: pytest.StashKey[tuple[SparkSession, dict[str, str]]] = pytest.StashKey()
_LEFT: pytest.StashKey[int] = pytest.StashKey()
TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes that tests start import `support`, too, and their JVMs use the archive of classes."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if hasattr(config, "workerinput"):
        watch_memory()
    pytest.register_assert_rewrite(
        "support.contract"
    )  # a failed assert there shows its values, as in a test module
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    if path[0] not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())
    # s3a:// for those who use it; nothing of it is loaded for the others. In front it would not fit the archive.
    os.environ.setdefault("SPARK_DIST_CLASSPATH", os.pathsep.join(map(str, s3a_jars())))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep collected tests out of garbage collection: they stay to the end, and each full collection would visit them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out exhaustive tests; let workers begin with the longest files."""
    _leave_out_exhaustive(config, items)
    if hasattr(config, "workerinput"):
        files = [os.path.relpath(item.path, TESTS) for item in items]
        items[:] = [items[place] for place in places(files)]


def _leave_out_exhaustive(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what `make test-all` and `make cluster` run, unless the command line names tests by their ids."""
    if any("::" in argument for argument in config.args):
        return
    left = left_out(items)
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        config.stash[_LEFT] = len(left)
        items[:] = [item for item in items if item not in left]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker tell the controller, which collects nothing, how many tests were left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = session.config.stash.get(_LEFT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Take the count from a worker; all of them collect the same tests."""
    node.config.stash[_LEFT] = getattr(node, "workeroutput", {}).get("left", 0)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print one line for the tests left to `make test-all`, and one for all tests without their servers."""
    stats = terminalreporter.stats
    stats["skipped"], absent, line = separate(stats.get("skipped", []))
    if absent:
        stats["without server"] = absent
        terminalreporter.write_line(line)
    left = config.stash.get(_LEFT, 0)
    if left:
        terminalreporter.write_line(
            f"{left} tests are left to make test-all and make cluster (marks: tests/support/exhaustive.py)"
        )


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no module find in the session what another one left there."""
    yield
    found = request.config.stash.get(_SESSION, None)
    if found is not None:
        drop_leftovers(*found)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the process's one Spark session: small, quiet, without a web page."""
    scratch = tmp_path_factory.mktemp("spark")
    for session in _classic_session(scratch):
        request.config.stash[_SESSION] = session, settings_of(session)
        yield session


def _classic_session(scratch: Path) -> Iterator[SparkSession]:
    import hiveacid  # noqa: PLC0415

    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": LONG_LIVED,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
    }
    builder = hiveacid.configure(quiet_spark("hiveacid tests", settings, shuffles=2))
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[AcidSession]:
    """Return a connection to an empty warehouse."""
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path / "warehouse"))
    yield connection
    connection.close()


@pytest.fixture
def native(spark: SparkSession, tmp_path: Path) -> Iterator[NativeSession]:
    """Return a session whose own ``spark.sql`` knows an empty warehouse; what a test made in Spark's catalog goes, too."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    import hiveacid  # noqa: PLC0415
    from hiveacid.sql.native.session import NativeSession  # noqa: PLC0415

    builder = hiveacid.configure(spark.builder, native=True, warehouse=str(tmp_path / "warehouse"))
    session = builder.getOrCreate()
    assert isinstance(session, NativeSession)
    yield session
    session.close()
    assert type(SparkSession.builder.getOrCreate()) is SparkSession
    drop_own_tables(spark)


@pytest.fixture(scope="module")
def golden_session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """Return one connection for all golden tables of a module; they come and go one by one."""
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("golden")))
    connection.sql("CREATE DATABASE acid")
    yield connection
    connection.close()


@pytest.fixture
def adopt_golden(golden_session: AcidSession, tmp_path: Path) -> Iterator[Callable[[Golden], AcidTable]]:
    """Return what unpacks a golden table and takes it over with the write ids that its engine saw."""
    adopted: list[AcidTable] = []

    def adopt(golden: Golden) -> AcidTable:
        number = len(adopted)
        location = unpack(golden, tmp_path / f"t{number}")
        # a name of its own: states of one table can then be there at once
        create = re.sub(
            r"^(CREATE (?:EXTERNAL )?TABLE\s+[\w.`]+?)(`?\s*\()", rf"\1_{number}\2", golden.show_create_table
        )
        table = golden_session.adopt(
            create,
            location=str(location),
            valid_write_ids=golden.valid_write_ids or None,
        )
        adopted.append(table)
        return table

    yield adopt
    for table in adopted:
        golden_session.sql(f"DROP TABLE {table.name}")


def _server(kind: type[Server]) -> Iterator[Server]:
    skip_without(kind.why_not())
    made = kind()
    made.start()
    yield made
    made.remove()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Return a PostgreSQL server; each test module uses a database of its own in it."""
    from support.servers.databases import PostgresServer  # noqa: PLC0415

    yield from _server(PostgresServer)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Server]:
    """Return a MariaDB server; each test module uses a database of its own in it."""
    from support.servers.databases import MariadbServer  # noqa: PLC0415

    yield from _server(MariadbServer)


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[Server]:
    """Return a MySQL server; each test module uses a database of its own in it."""
    from support.servers.databases import MysqlServer  # noqa: PLC0415

    yield from _server(MysqlServer)
