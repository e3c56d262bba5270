"""``hiveacid doctor``: checks of this machine's installation, each with advice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import click

from hiveacid.cli.options import (
    ConnectionOptions,
    escape_controls_of_lines,
    is_expected,
    output_option,
    store_option,
)
from hiveacid.errors import HiveAcidError
from hiveacid.ports.store import WarehouseStore

_JAVA = 17
_SPARK_VERSIONS = ((3, 5), (5, 0))  # the lowest that is supported, and the lowest that is not
_PYTHON = (3, 11)
_FREE_BYTES = 1 << 30  # that the disk should have
_FREE_MEMORY = 1_500_000_000  # bytes that should be available
_EXTRAS = {
    "arrow": "pyorc", "duckdb": "duckdb", "hms": "thrift", "mysql": "pymysql", "openlineage": "openlineage", "pandas": "pandas",
    "polars": "polars", "postgres": "psycopg", "services": "prometheus_client", "shell": "prompt_toolkit", "streaming": "pyorc", "web": "starlette",
}  # fmt: skip
_MAX_CLOCK_SKEW = 2.0  # seconds that the file system's clock may differ
_ANSWER_SECONDS = 30  # seconds that another program has to answer


@dataclass(frozen=True)
class Check:
    """Result of one check: its name, whether it passed, what was found, and advice if it failed."""

    check: str
    ok: bool
    found: str
    advice: str = ""


@click.command()
@click.option(
    "-w", "--warehouse", envvar="HIVEACID_WAREHOUSE", metavar="DIRECTORY", help="Look at this warehouse, too."
)
@store_option("Look at this transaction store, too.")
@click.option(
    "--start", "starts", is_flag=True,
    help="Also start Spark, and create, change and read a table in a temporary warehouse.",
)  # fmt: skip
@output_option("table", "json")
def doctor(*, warehouse: str | None, store: str | None, starts: bool, output: str) -> None:
    """Look at Python, Java, PySpark, memory, and the warehouse and its store; exit code 1 if something is wrong."""
    checks = [python(), java(), pyspark(), *worker_pythons(), *memory(), extras()]
    if warehouse is not None:
        from hiveacid.storage.paths import is_local  # noqa: PLC0415 - --help needs none of it

        local = is_local(warehouse)
        checks += local_warehouse(Path(warehouse)) if local else remote_warehouse(warehouse)
    if warehouse is not None or store is not None:
        checks.append(transaction_store(warehouse or "", store))
    if starts:
        checks.append(trial())
    for check in (replace(check, advice="") if check.ok else check for check in checks):
        if output == "json":
            click.echo(json.dumps(asdict(check), ensure_ascii=False))
        else:
            mark = click.style("ok", fg="green") if check.ok else click.style("wrong", fg="red")
            click.echo(f"{mark:<5} {check.check}: {escape_controls_of_lines(check.found)}")
            if not check.ok:
                click.echo(f"      {check.advice}")
    if not all(check.ok for check in checks):
        raise click.exceptions.Exit(1)


def python() -> Check:
    """Check the version of the running Python."""
    version = f"{sys.version.split()[0]} ({sys.executable})"
    return Check("python", sys.version_info >= _PYTHON, version, "Python 3.11 or newer is needed")


def java() -> Check:
    """Check the version of the Java that Spark will use."""
    home = os.environ.get("JAVA_HOME")
    path = f"{home}/bin/java" if home else shutil.which("java")
    advice = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if path is None or not Path(path).exists():
        return Check(
            "java", ok=False, found="not found" if path is None else f"{path} does not exist", advice=advice
        )
    answer = _program_output([path, "-version"])
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    if version is None:
        return Check("java", ok=False, found=f"{path} does not answer", advice=advice)
    return Check("java", int(version[1]) >= _JAVA, f"{version[1]} ({path})", advice)


def _program_output(command: list[str]) -> str:
    """Return the output of a program, '' if it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def pyspark() -> Check:
    """Check the version of the installed PySpark, without starting it."""
    advice = "pip install 'hiveacid[spark]' (PySpark 3.5 to 4.x)"
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Check("pyspark", ok=False, found="not installed", advice=advice)
    major, minor = (int(part) for part in version.split(".")[:2])
    low, high = _SPARK_VERSIONS
    return Check("pyspark", low <= (major, minor) < high, version, advice)


def worker_pythons() -> Iterator[Check]:
    """Check the Python of Spark's workers: Python functions in queries need the same version as the driver's."""
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        path = os.environ.get(variable)
        if path is None:
            continue
        answer = _program_output([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
        own_version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        description = f"{path}: {answer or 'does not run'}"
        yield Check(
            variable,
            answer == own_version,
            description,
            f"unset {variable}, or give it a Python {own_version}",
        )


def memory() -> Iterator[Check]:
    """Check the memory that is available, where the system tells it: Spark's driver takes 1 GB and more."""
    try:
        found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
    except OSError:
        return
    if found is not None:
        available = int(found[1]) << 10
        advice = "free some memory: Spark's driver needs 1 GB, and Python beside it"
        yield Check("memory", available >= _FREE_MEMORY, f"{available / (1 << 30):.1f} GiB available", advice)


def extras() -> Check:
    """List the optional packages that are installed, and how to install the others; none of them is needed."""
    missing = [name for name, module in _EXTRAS.items() if find_spec(module) is None]
    found = ", ".join(name for name in _EXTRAS if name not in missing) or "none"
    hint = f"; not installed: pip install 'hiveacid[{','.join(missing)}]'" if missing else ""
    return Check("extras", ok=True, found=f"{found}{hint}")


def trial() -> Check:
    """Start Spark; create, change and read a table in a temporary warehouse."""
    began = time.monotonic()
    script = (
        "CREATE TABLE trial (id INT, item STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')",
        "INSERT INTO trial VALUES (1, 'tea'), (2, 'jam')",
        "UPDATE trial SET item = 'rye' WHERE id = 2",
    )
    try:
        with tempfile.TemporaryDirectory(prefix="hiveacid-doctor-") as place:
            options = ConnectionOptions(f"{place}/wh", None, (), verbose=False)
            with options.session(new=True, quiet=True) as session:
                for statement in script:
                    session.sql(statement)
                found = session.sql("SELECT item FROM trial ORDER BY id").collect()
    except Exception as error:
        if not is_expected(error):
            raise
        return Check("trial", ok=False, found=str(error), advice="the text above names the reason")
    items = [row["item"] for row in found]
    seconds = f"a table was created, changed and read in {time.monotonic() - began:.0f} s"
    return Check("trial", items == ["tea", "rye"], seconds, f"wrong rows ({items}): please report this")


def remote_warehouse(warehouse: str) -> Iterator[Check]:
    """Check whether a warehouse in an object store or HDFS can be reached with the environment's credentials."""
    from hiveacid.storage.file_system_routing import AnyFileSystem  # noqa: PLC0415 - imports Arrow
    from hiveacid.storage.paths import absolute  # noqa: PLC0415

    try:
        exists = AnyFileSystem().exists(absolute(warehouse))
    except HiveAcidError as error:
        advice = (
            "this command takes credentials from AWS_… and similar variables: see the page on object stores"
        )
        yield Check("warehouse", ok=False, found=str(error), advice=advice)
        return
    yield Check("warehouse", ok=True, found=warehouse if exists else f"{warehouse} (nothing there yet)")


def local_warehouse(warehouse: Path) -> Iterator[Check]:
    """Check a local warehouse: write permission, difference of clocks, free space."""
    existing = next(path for path in (warehouse.absolute(), *warehouse.absolute().parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".hiveacid-doctor-") as file:
            skew = abs(Path(file.name).stat().st_mtime - time.time())
    except OSError as error:
        problem = f"{existing}: {error.strerror}"
        yield Check(
            "warehouse", ok=False, found=problem, advice="choose a directory that this user may write to"
        )
        return
    shown = (
        str(warehouse)
        if existing == warehouse.absolute()
        else f"{warehouse} (not there yet; {existing} is writable)"
    )
    yield Check("warehouse", ok=True, found=shown)
    advice = "let the file server and this machine keep the same time (NTP)"
    yield Check(
        "clock", skew <= _MAX_CLOCK_SKEW, f"differs by {skew:.1f} s from that of the warehouse", advice
    )
    free = shutil.disk_usage(existing).free
    yield Check(
        "disk",
        free >= _FREE_BYTES,
        f"{free / (1 << 30):.1f} GiB free",
        "free some space: a compaction needs as many bytes as the table has",
    )


def transaction_store(warehouse: str, store: str | None) -> Check:
    """Check whether the store, if it exists, can be opened and answers a query; with ``store`` no warehouse is needed."""
    from hiveacid.config import Settings, setting_definitions  # noqa: PLC0415 - --help needs none of it
    from hiveacid.core.schema.location_overlap import STORE_DIRECTORY, STORE_FILE  # noqa: PLC0415
    from hiveacid.ports.clock import SystemClock  # noqa: PLC0415
    from hiveacid.storage.paths import is_local  # noqa: PLC0415
    from hiveacid.stores.hms.metastores import is_metastore  # noqa: PLC0415
    from hiveacid.stores.hms.store import MetastoreStore  # noqa: PLC0415
    from hiveacid.stores.sql.dialects.sqlite import sqlite_url  # noqa: PLC0415
    from hiveacid.stores.sql.store import SqlStore  # noqa: PLC0415

    if store is None and not is_local(warehouse):
        advice = (
            "a warehouse outside local disks needs --store: PostgreSQL, MariaDB, MySQL or a Hive Metastore"
        )
        return Check("store", ok=False, found="none was named", advice=advice)
    file = Path(warehouse).absolute() / STORE_DIRECTORY / STORE_FILE
    if store is None and not file.exists():
        return Check("store", ok=True, found="not there yet; the first statement creates it")
    try:
        timeout = Settings().get(setting_definitions.TXN_TIMEOUT)
        opened: WarehouseStore
        if store is not None and is_metastore(store):
            opened = MetastoreStore(store)
        else:
            opened = SqlStore(store or sqlite_url(file), clock=SystemClock(), txn_timeout=timeout)
        count = len(opened.show_transactions())
    except HiveAcidError as error:
        return Check("store", ok=False, found=f"error {error.code}: {error}", advice="see docs/errors.md")
    return Check("store", ok=True, found=f"answers; {count} open or aborted transactions")
