"""Write the documentation pages that are generated: settings, properties, errors, findings, Python, commands, life cycles, Hive's statements.

python tools/generated_pages.py          writes them
python tools/generated_pages.py --check  only compares, exit code 1 where one is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import click

from hiveacid import errors
from hiveacid.cli import main as command_line
from hiveacid.config import property_definitions, setting_definitions
from hiveacid.config.property_definitions import TableProperty
from hiveacid.config.setting_types import AnySetting, Section
from hiveacid.core.snapshot.check_findings import FindingKind
from hiveacid.core.transactions.states import COMPACTION, LOCK, TRANSACTION, Machine
from hiveacid.errors import HiveAcidError
from hiveacid.serve.server import Server
from hiveacid.services.monitoring import StoreRows, location_metrics, loop_metrics, store_metrics
from hiveacid.services.runner import LoopState

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTE = "<!-- made by tools/generated_pages.py; do not edit -->\n"

SETTINGS_HEAD = """# Settings

Names and defaults are those of Hive 4.2, so that a script written for Hive means the same here. Keys that begin with
`hiveacid.` are our own; they exist only where Hive has none.

Set one for the session with `acid.sql("SET hive.txn.timeout=10min")`, with
`hiveacid.connect(spark, warehouse="wh", settings={"hive.txn.timeout": "10min"})`, or on the command
line with `-e "SET …"`. `SET` (or `SET -v`) shows all of them. `RESET` restores the defaults, also of settings given to
`connect`. A client of `hiveacid serve` can neither set nor reset those of the store and of lineage.

Durations may have a unit (`ms`, `s`, `min`, `h`, `d`), and so may sizes (`kb`, `mb`, `gb`). A duration without one has the unit of
its default, as in Hive: `hive.txn.timeout=600` is ten minutes. A size without one is in bytes. A value that does not fit its type
is refused with a `ConfigError`. The value of an unknown name is kept and not used, with a logged warning. An unknown name that begins
with `hiveacid.` is an error.
"""

PYTHON_HEAD = """# Python

The public functions and classes, with the methods that they define, and an example of each. [Start](start.md), [Read](read.md),
[Write](write.md), [Merge](merge.md) and [Without Spark](arrow.md) explain them. All errors are on [a page of their own](errors.md).
The site (`make docs`) takes signatures and texts from the docstrings; a test runs the examples, from the first to the last.

```python
import hiveacid
from pyspark.sql import SparkSession
```
"""
PYTHON_NAMES = (
    "configure", "connect", "open", "AcidSession", "AcidTable", "Scan", "table.acid_table.Inspect", "table.write.merge.TableMerger",
    "table.read.change_feed.ChangeFeed", "table.write.publish.WriteReport", "table.compaction.run_compaction.CompactionReport",
    "ArrowWarehouse", "ArrowTable", "ScanPlan", "streaming.Connection", "services.Services",
)  # fmt: skip
PYTHON_EXAMPLES = Path(__file__).with_name("python_examples.md")

INTERNAL = frozenset((
    "binder", "close_without_ending_reads", "described", "end_by_statement", "end_own", "execution",
    "add_columns", "add_stream_progress", "adopt_table", "follow_auto_compact", "new_call", "new_columns", "register_stream", "run", "sequence", "shown", "statement", "store", "summary",
    "transactions", "with_arguments",
))  # fmt: skip

PROPERTIES_HEAD = """# Table properties

`TBLPROPERTIES` of `CREATE TABLE` and `ALTER TABLE … SET TBLPROPERTIES` that change what hiveacid does. Keys are compared
without case. All other keys are kept with the table, shown by `SHOW TBLPROPERTIES`, and have no effect; if one looks
misspelt, a warning is logged. Keys that begin with `hiveacid.` are our own, and an unknown one is refused with a
`ConfigError`. The others are those of Hive or of the engine named. A value that does not fit the type is refused
before anything is written; tables that another engine made with such a value can be read.

[Settings](settings.md) apply to a session. A table property of the same meaning takes precedence.
"""

ERRORS_HEAD = """# Errors

All errors that hiveacid raises are a `hiveacid.HiveAcidError`. Each class has a stable `code`, which is Hive's number if Hive
has one. `retryable` says whether the same statement may succeed when it is repeated. The message says what happened
and what to do.

A statement on a transactional table that raises an error has changed nothing: its files belong to an aborted transaction,
which no reader sees. There are three exceptions:

- `CommitStateUnknownError`: the outcome is unknown.
- DROP … CASCADE and COMPACT of several partitions have several steps; finished steps stay done.
- Plain tables have no transactions.

A DataFrame runs when its rows are requested, after the verb has returned. Errors of that time (a corrupt file, a division by
zero) are Spark's own exceptions, with the file's path in the text.

The command line prints code and message on standard error and ends with exit code 1 (2 for a wrong
call).

| class | code | retryable | meaning |
|---|---|---|---|
"""

CHECK_HEAD = """# Check

`hiveacid check TABLE` verifies a table, from the names of its directories down to every row. It changes nothing. It checks:

- directory names, side files, footers, unreadable and leftover files;
- order and uniqueness of row ids, the bucket of each row, delete events without a row;
- partitions on disk and in the catalog.

Options and output:

- `--quick` checks names, side files and footers only. It needs no Spark and reads no row.
- `--partition p=1` checks one partition (or those of the first columns).
- The exit code is 1 if there is damage, otherwise 0; warnings and notes do not count.
- `-o json` prints one object for each finding: severity, code, partition, path, message, advice.

In Python: `acid.table("t").inspect.check()` returns the findings, worst first.

**damage**: rows are wrong, lost or unreadable. **warning**: another engine fails or reads wrong rows, or rows may be
missing. **note**: harmless; maintenance, or information.

| severity | code | what it means | what to do |
|---|---|---|---|
"""

CLI_HEAD = """# Command line

`hiveacid` has a command for each job; all of them have `--help`.

- `-w` names the warehouse directory; the default is `HIVEACID_WAREHOUSE`.
- `--store` names a store on a server; the default is `HIVEACID_STORE`, and without it a file in the warehouse. `--store`
  refuses passwords, because all users of the machine can read command lines ([Operate](operate.md)).
- The exit code is 0, 1 on an error, 2 on a wrong call.
- Results go to standard output, everything else to standard error. Errors carry a [code](errors.md) and,
  for SQL, line and column.
- `-o json` prints one JSON object for each row (JSON lines) with the column names as keys, and nothing else.
- `-o csv` prints NULL as an empty field and an empty text as `""`; a result of one column has `""` for both. `-o tsv` prints NULL
  as that word, as beeline does in csv2 and tsv2, which may also be a text. `-o json` always tells them apart.
"""
STATES_HEAD = """# Life cycles

The states of transactions, lock requests and compactions, and the events between them. The program uses the same tables
(`src/hiveacid/core/transactions/states.py`) and rejects every other transition.
"""
METRICS_HEAD = """# Metrics

`hiveacid services --port 9100` and `hiveacid serve --health-port 9101` answer `/metrics` in the format of Prometheus
(`pip install 'hiveacid[services]'`). Names are those of Hive 4 where Hive has the metric. Ages and durations are in seconds.
Prometheus sees the name of a counter with `_total` behind it. [Monitoring](compact.md#monitoring) says who may read the page.
"""
STATEMENTS_HEAD = """# Hive's statements

The statements of Hive's language manual, each with an example: ✔ it runs, ◐ it runs with a difference, ✘ it is refused. A refusal has
its [code](errors.md) and the text of the error, which says what to do instead. Where `acid.sql` and `hiveacid sql` differ from
`spark.sql` and JDBC in a [native session](native.md), the first mark is that of `acid.sql`.

A test runs all examples in this order, by both, and compares marks and errors. [SQL](sql.md) has the grammar with all clauses.
Queries are Spark's, here of Spark 4.3. Functions are Spark's as well.
"""
STATEMENTS = Path(__file__).with_name("hive_statements.toml")
WIDTH = 100  # of the help texts


def setting_row(setting: AnySetting) -> str:
    """Return a row of the settings table."""
    kind = setting.kind.replace("|", "\\|")
    relation = f" ({setting.difference_from_hive}.)" if setting.difference_from_hive else ""
    return f"| `{setting.name}` | {kind} | `{setting.default}` | {setting.doc}{relation} |"


def section_text(section: Section[AnySetting]) -> str:
    """Return a section of the settings page."""
    rows = "\n".join(setting_row(setting) for setting in section.entries)
    return f"\n## {section.title}\n\n| name | type | default | meaning |\n|---|---|---|---|\n{rows}\n"


def property_row(one: TableProperty) -> str:
    """Return a row of the table of table properties."""
    kind = one.kind.replace("|", "\\|")
    return f"| `{one.name}` | {kind} | {one.default} | {one.doc} | {one.origin} |"


def property_section(section: Section[TableProperty]) -> str:
    """Return a section of the page of table properties."""
    rows = "\n".join(map(property_row, section.entries))
    head = "| name | type | without it | meaning | of |\n|---|---|---|---|---|"
    return f"\n## {section.title}\n\n{head}\n{rows}\n"


def error_rows(cls: type[HiveAcidError], depth: int = 0) -> list[str]:
    """Return the rows of an error class and all below it, in the order of their definition."""
    summary = (cls.__doc__ or "").strip().splitlines()[0]
    retryable = "yes" if cls.retryable else ""
    indent = "&nbsp;&nbsp;" * depth
    row = f"| {indent}`{cls.__name__}` | {cls.code} | {retryable} | {summary} |"
    below = [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
    return [row, *(line for child in below for line in error_rows(child, depth + 1))]


def python_examples() -> dict[str, str]:
    """Return the example of each entry of the Python page, by its heading."""
    _, *sections = PYTHON_EXAMPLES.read_text(encoding="utf-8").split("\n## ")
    return {heading: code.strip() for heading, _, code in (section.partition("\n") for section in sections)}


def python_entry(heading: str, path: str, level: int, examples: dict[str, str], options: str = "") -> str:
    """Return what mkdocstrings makes an entry of, and its example. Raises KeyError for an entry without one."""
    directive = f"::: {path}\n    options:\n      heading: {heading}\n      toc_label: {heading}\n      heading_level: {level}\n{options}"
    return f"\n{directive}\n```python\n{examples.pop(heading)}\n```\n"


def python_page() -> str:
    """Return the page of the public functions and classes. Raises ValueError for an example without an entry."""
    text, examples = PYTHON_HEAD, python_examples()
    for path in PYTHON_NAMES:
        module, _, name = f"hiveacid.{path}".rpartition(".")
        value = getattr(import_module(module), name)
        home = f"{value.__module__}.{value.__qualname__}"
        if inspect.isfunction(value):
            text += python_entry(f"hiveacid.{name}", f"hiveacid.{name}", 2, examples)
            continue
        # only these two are called by users; the others are results of methods, as are those without a public home
        is_called = path.count(".") == 1
        signature = "" if is_called else "      show_signature: false\n"
        text += python_entry(name, home, 2, examples, f"      members: false\n{signature}")
        bases = [base for base in getattr(value, "__mro__", ()) if base.__module__.startswith("hiveacid.")]
        for member_name, member in {n: m for base in reversed(bases) for n, m in vars(base).items()}.items():
            function = member.fget if isinstance(member, property) else member
            if member_name.startswith("_") or member_name in INTERNAL or not inspect.isfunction(function):
                continue
            own = inspect.unwrap(function)
            text += python_entry(f"{name}.{member_name}", f"{own.__module__}.{own.__qualname__}", 3, examples)
    if examples:
        raise ValueError(f"examples without an entry: {', '.join(examples)}")
    return text


def help_texts(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Yield name and help text of a command and all below it."""
    with click.Context(
        command, info_name=name, terminal_width=WIDTH, help_option_names=["-h", "--help"]
    ) as context:
        yield name, command.get_help(context)
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                if found is not None:
                    yield from help_texts(found, f"{name} {child}")


def finding_row(kind: FindingKind) -> str:
    """Return a row of the table of findings."""
    return f"| {kind.severity} | `{kind.code}` | {kind.meaning} | {kind.advice} |"


def cli_page() -> str:
    """Return the page of the command line."""
    texts = help_texts(command_line, "hiveacid")
    return CLI_HEAD + "".join(f"\n## {name}\n\n```text\n{text}\n```\n" for name, text in texts)


def draw(machine: Machine) -> str:
    """Return a life cycle as a Mermaid state diagram."""
    names = {state: f"s{number}" for number, state in enumerate(machine.states)}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state}" as {name}' for state, name in names.items()]
    lines.append(f"    [*] --> {names[machine.start]}")
    lines += [
        f"    {names[transition.source]} --> {names[transition.target]}: {transition.event}"
        for transition in machine.transitions
    ]
    lines += [f"    {names[state]} --> [*]" for state in machine.final_states]
    return "\n".join(lines) + "\n"


def machine_text(machine: Machine) -> str:
    """Return a life cycle as a table and as a picture."""
    rows = "".join(f"| {one.source} | {one.event} | {one.target} |\n" for one in machine.transitions)
    return (
        f"\n## {machine.noun.capitalize()}\n\n| state | event | next state |\n|---|---|---|\n{rows}"
        f"\nIt begins as {machine.start} and ends as {' or '.join(machine.final_states)}.\n"
        f"\n```mermaid\n{draw(machine)}```\n"
    )


def metrics_page() -> str:
    """Return the page of the metrics that an empty store, services and a server without clients have."""
    loops = {kind: LoopState(kind, 0.0) for kind in ("initiator", "worker", "cleaner")}
    sessions = type("NoSessions", (tuple,), {"opened": 0})()
    service = SimpleNamespace(sessions=sessions, calls=0, failures=0)
    server = SimpleNamespace(_service=service, _connections=(), _refused=0)
    groups = {
        "Store: queue, transactions, locks, services": store_metrics(StoreRows(0, (), (), (), (), ())),
        "Tables (labels: database, table, partition), of a process with the initiator": location_metrics({}),
        "Services of the process (label: service)": loop_metrics(loops),
        "Server of JDBC clients": Server.metrics(server),  # type: ignore[arg-type]
    }
    text = METRICS_HEAD
    for title, metrics in groups.items():
        rows = "".join(f"| `{one.name}` | {one.kind} | {one.help} |\n" for one in metrics)
        text += f"\n## {title}\n\n| name | kind | meaning |\n|---|---|---|\n{rows}"
    return text


def statement_row(marks: str, text: str, *more: str) -> str:
    """Return the row of a statement; ``more``: what differs, or code and text of the error."""
    quoted = f"`` {text} ``" if "`" in text else f"`{text}`"
    explained = re.sub(r"([*_`<])", r"\\\1", ": ".join(more))
    row = " | ".join(cell.replace("|", r"\|") for cell in (" ".join(marks), quoted, explained))
    return f"| {row} |"


def statements_page() -> str:
    """Return the page of Hive's statements."""
    page = STATEMENTS_HEAD
    for part in tomllib.loads(STATEMENTS.read_text(encoding="utf-8"))["part"]:
        rows = "\n".join(statement_row(*one) for one in part["statements"] if one[0] != ".")
        page += f"\n## {part['title']}\n\n| | statement | |\n|---|---|---|\n{rows}\n"
    return page


def pages() -> dict[str, str]:
    """Return the content of every generated page by its file name."""
    return {
        "settings.md": NOTE
        + SETTINGS_HEAD
        + "".join(section_text(section) for section in setting_definitions.SECTIONS),
        "table-properties.md": NOTE
        + PROPERTIES_HEAD
        + "".join(map(property_section, property_definitions.SECTIONS)),
        "python.md": NOTE + python_page(),
        "cli.md": NOTE + cli_page(),
        "metrics.md": NOTE + metrics_page(),
        "states.md": NOTE + STATES_HEAD + "".join(map(machine_text, (TRANSACTION, LOCK, COMPACTION))),
        "check.md": NOTE + CHECK_HEAD + "\n".join(map(finding_row, FindingKind)) + "\n",
        "hive-statements.md": NOTE + statements_page(),
        "errors.md": NOTE + ERRORS_HEAD + "\n".join(error_rows(HiveAcidError)) + "\n",
    }


def main(arguments: list[str]) -> int:
    """Write or check the pages; return the exit code."""
    stale = []
    for name, text in pages().items():
        path = DOCS / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")
    if stale and "--check" in arguments:
        print(f"out of date: {', '.join(stale)}; run python tools/generated_pages.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
