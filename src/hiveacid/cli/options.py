"""Options that several commands share, and the exit of a command on errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from functools import wraps
from importlib.util import find_spec
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from hiveacid.cli.progress_line import spark_starts
from hiveacid.core.schema.partitions import parse_partition_values
from hiveacid.errors import ConfigError, HiveAcidError
from hiveacid.ports.store import WarehouseStore

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession
    from hiveacid.sql.session import AcidSession
    from hiveacid.table.read.inventory import StandaloneAccess

F = TypeVar("F", bound=Callable[..., object])
FORMATS = ("table", "json", "csv", "tsv")
"""Formats of rows on standard output (`hiveacid.cli.output_formats`)."""
_ESCAPES = {number: f"\\x{number:02x}" for number in chain(range(32), range(0x7F, 0xA0))}
_VISIBLE = _ESCAPES | {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}


@dataclass(frozen=True)
class ConnectionOptions:
    """Values of -w, --store, --conf and --verbose, which open the store, the files and Spark."""

    warehouse: str | None
    store: str | None = field(repr=False)  # may hold a password
    conf: tuple[str, ...]
    verbose: bool

    @contextmanager
    def session(
        self, *, new: bool = False, quiet: bool = False, settings: Mapping[str, str] | None = None
    ) -> Iterator[AcidSession]:
        """Yield a connection on a local Spark session; both end with the block. ``settings`` as for `hiveacid.connect`.

        ``new``: create a missing warehouse, if the directory above it exists. Without it, a missing warehouse is a ConfigError
        (a misspelt path). ``quiet``: do not print that it is created.
        """
        self.require_warehouse(existing=not new, quiet=quiet)
        require_pyspark()
        from hiveacid.spark.session.jvm_process import local_session  # noqa: PLC0415 - imports PySpark
        from hiveacid.sql.session import connect  # noqa: PLC0415

        with ExitStack() as stack:
            with nullcontext() if self.verbose else spark_starts():
                spark = stack.enter_context(local_session(self._conf(), chatter=self.verbose))
                session = connect(spark, self.warehouse, self.store, settings)
            yield stack.enter_context(session)

    @contextmanager
    def native_session(self, more: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[NativeSession]:
        """Yield a native session on a new Spark with ``more`` of its settings, and hiveacid's ``settings``.

        A missing warehouse is created, if the directory above it exists.
        """
        self.require_warehouse(existing=False)
        require_pyspark()
        from hiveacid.spark.session.jvm_process import local_session  # noqa: PLC0415 - imports PySpark
        from hiveacid.sql.native.session import open_native_session  # noqa: PLC0415

        with ExitStack() as stack:
            with nullcontext() if self.verbose else spark_starts():
                spark = stack.enter_context(local_session({**more, **self._conf()}, chatter=self.verbose))
                session = open_native_session(spark, self.warehouse, self.store, settings)
            stack.callback(session.close)
            yield session

    @contextmanager
    def opened_store(self, *, existing: bool = True) -> Iterator[WarehouseStore]:
        """Yield only the store and catalog, for commands that need no Spark; ``existing`` as for `require_warehouse`."""
        self.require_warehouse(existing=existing)
        from hiveacid.catalog.opening import open_store  # noqa: PLC0415 - imports SQLAlchemy
        from hiveacid.config import Settings  # noqa: PLC0415
        from hiveacid.ports.clock import SystemClock  # noqa: PLC0415

        store, _ = open_store(self.warehouse, self.store, Settings(), SystemClock())
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def standalone_access(self) -> Iterator[StandaloneAccess]:
        """Yield store, catalog and files, for commands that inspect tables without Spark."""
        from hiveacid.storage.file_system_routing import AnyFileSystem  # noqa: PLC0415 - keeps --help fast
        from hiveacid.table.read.inventory import StandaloneAccess  # noqa: PLC0415

        with self.opened_store() as store:
            yield StandaloneAccess(AnyFileSystem(), store, store)

    def require_warehouse(self, *, existing: bool = True, quiet: bool = False) -> None:
        """Raise UsageError without a warehouse, and ConfigError for a missing one unless it may be created."""
        from hiveacid.catalog.opening import new_warehouse_notice, require_existing_warehouse  # noqa: PLC0415 - keeps --help fast
        from hiveacid.stores.hms.metastores import is_metastore  # noqa: PLC0415

        if not self.warehouse and not is_metastore(self.store):
            raise click.UsageError("no warehouse is given: give -w DIRECTORY or set HIVEACID_WAREHOUSE")
        if existing:
            require_existing_warehouse(self.warehouse, self.store)
        elif self.warehouse:
            line = new_warehouse_notice(self.warehouse, self.store)
            if line is not None and not quiet:
                click.echo(line, err=True)

    def _conf(self) -> dict[str, str]:
        pairs = [text.partition("=") for text in self.conf]
        wrong = [
            text for text, (key, equals, _) in zip(self.conf, pairs, strict=True) if not (key and equals)
        ]
        if wrong:
            raise click.UsageError(f"--conf {wrong[0]}: expected KEY=VALUE")
        return {key.strip(): value.strip() for key, _, value in pairs}


class Seconds(click.FloatRange):
    """A number of seconds, which a clock can reach: click's own range lets ``nan`` and ``inf`` pass."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or end the command with a usage error."""
        seconds = float(super().convert(value, param, ctx))
        if not isfinite(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return seconds


def require_pyspark() -> None:
    """Raise ConfigError if PySpark, which the other commands do without, is not installed."""
    if find_spec("pyspark") is None:
        raise ConfigError("PySpark is not installed: pip install 'hiveacid[spark]'")


def grouped_options(name: str, group: type[object], options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """Add options whose values the command gets as one, ``name``: a dataclass with a field for each."""

    def add(command: F) -> F:
        @wraps(command)
        def wrapper(**values: object) -> object:
            own = {one.name: values.pop(one.name) for one in fields(group)}  # type: ignore[arg-type]
            return command(**values, **{name: group(**own)})

        grouped: F = wrapper  # type: ignore[assignment]
        for option in reversed(options):
            grouped = option(grouped)
        return grouped

    return add


def connection_options(command: F) -> F:
    """Add -w, --store, --conf and --verbose; the command gets a `ConnectionOptions` as ``connection``.

    An expected error of the command ends it as in `exit_on_errors`.
    """
    return grouped_options("connection", ConnectionOptions, _CONNECTION_OPTIONS)(exit_on_errors()(command))


def without_password(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse a password among the arguments, because every user of the machine can list them."""
    if value is None or context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE:
        return value
    from hiveacid.stores.hms.metastores import is_metastore  # noqa: PLC0415 - keeps --help fast

    if is_metastore(value):
        return value  # a metastore is used without authentication; to open one whose URL has a password is an error
    from hiveacid.stores.sql.database import PASSWORD_VARIABLE, has_password  # noqa: PLC0415 - imports SQLAlchemy

    with exit_on_errors():
        if has_password(value):
            raise click.UsageError(
                "a password on the command line can be read by every user of this machine: leave it out of --store "
                f"and set {PASSWORD_VARIABLE} (or use ~/.pgpass), or put the whole URL into HIVEACID_STORE"
            )
    return value


def store_option(text: str) -> Callable[[F], F]:
    """Add --store."""
    return click.option(
        "--store", envvar="HIVEACID_STORE", metavar="URL", callback=without_password,
        help=f"{text} Also from $HIVEACID_STORE. Must not contain a password on the command line.",
    )  # fmt: skip


_CONNECTION_OPTIONS = (
    click.option(
        "-w",
        "--warehouse",
        envvar="HIVEACID_WAREHOUSE",
        metavar="DIRECTORY",
        help="The warehouse directory (default: $HIVEACID_WAREHOUSE).",
    ),
    store_option("The transaction store (default: SQLite in the warehouse)."),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
    click.option("--verbose", is_flag=True, help="Let Spark print its log on standard error."),
)


def settings_option(text: str) -> Callable[[F], F]:
    """Add --set, which `parse_settings` splits."""
    return click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help=text)


def parse_settings(settings: Sequence[str]) -> list[tuple[str, str]]:
    """Split NAME=VALUE; refuse unknown settings before Spark starts."""
    from hiveacid.config import Settings  # noqa: PLC0415 - keeps --help fast

    pairs = parse_pairs("--set", settings)
    Settings.of(dict(pairs))
    return pairs


def parse_pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Split the NAME=VALUE of an option."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} {text}: expected NAME=VALUE")
        pairs.append((name.strip(), value.strip()))
    return pairs


def output_option(*formats: str) -> Callable[[F], F]:
    """Add -o with the given formats, the first being the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="json: one object a row, nothing else on standard output.",
    )


def partition_option(text: str) -> Callable[[F], F]:
    """Add --partition, which `partition_spec` parses."""
    return click.option("--partition", metavar="P=1/Q=2", help=text)


def partition_spec(text: str | None) -> dict[str, str | None] | None:
    """Parse ``p=1/q=2`` into columns and unescaped values."""
    if text is None:
        return None
    names = [part.partition("=")[0] for part in text.strip("/").split("/")]
    if not all("=" in part for part in text.strip("/").split("/")):
        raise click.UsageError(f"--partition {text}: expected COLUMN=VALUE/COLUMN=VALUE")
    return dict(zip(names, parse_partition_values(names, text.strip("/")), strict=True))


def warn_if_open(session: AcidSession) -> None:
    """Warn of a transaction without COMMIT, which is rolled back although the script ends with exit code 0."""
    if session.joined is not None and session.by_statement:
        click.echo("warning: START TRANSACTION was not followed by COMMIT: it is rolled back", err=True)


def escape_controls(text: str) -> str:
    r"""Replace control characters by visible escapes such as ``\x1b``."""
    return text.translate(_VISIBLE)


def escape_controls_of_lines(text: str) -> str:
    """Replace control characters in each line, as `escape_controls` does, and keep the line breaks."""
    return "\n".join(map(escape_controls, text.split("\n")))


def is_expected(error: Exception) -> bool:
    """Tell whether an error's message is meant for users (HiveAcidError, errors of Spark); others are bugs."""
    return isinstance(error, HiveAcidError) or type(error).__module__.startswith(("pyspark.", "py4j."))


def print_error(error: Exception) -> None:
    """Print an error with its code on standard error."""
    if isinstance(error, HiveAcidError):
        click.echo(f"error {error.code}: {escape_controls_of_lines(str(error))}", err=True)
    else:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        click.echo(f"error SPARK: {escape_controls(first.strip())}", err=True)


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Print an expected error and end with exit code 1."""
    try:
        yield
    except Exception as error:
        if not is_expected(error):
            raise
        print_error(error)
        raise click.exceptions.Exit(1) from error
