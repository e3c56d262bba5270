"""Write the documentation pages that are made from code: settings, errors, findings, life cycles, command line.

python tools/generated_pages.py          writes them
python tools/generated_pages.py --check  only compares, exit code 1 where one is out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from hiveacid import errors
from hiveacid.cli.main import main as command_line
from hiveacid.config import keys
from hiveacid.config.keys import Section
from hiveacid.config.values import AnySetting
from hiveacid.core.findings import Kind
from hiveacid.core.states import COMPACTION, LOCK, TRANSACTION, Machine, draw
from hiveacid.errors import HiveAcidError

DOCS = Path(__file__).resolve().parents[1] / "docs"
CODE = DOCS.parent / "src/hiveacid"
NOTE = "<!-- made by tools/generated_pages.py; do not edit -->\n"

SETTINGS_HEAD = """# Settings

Names and defaults are Hive's (4.2), so that a script written for Hive means the same here. Keys that
begin with `hiveacid.` are our own; there are few, where Hive has none.

Set one for the session with `acid.sql("SET hive.txn.timeout=10min")`, with
`hiveacid.connect(spark, warehouse="wh", settings={"hive.txn.timeout": "10min"})`, or on the command
line with `-e "SET …"`. `SET` (or `SET -v`) shows all of them; `RESET` takes back what was set, that of
`connect` included. *No effect yet* stands behind a setting that is taken and shown, but that nothing asks.

Durations may have a unit (`ms`, `s`, `min`, `h`, `d`), sizes too (`kb`, `mb`, `gb`). A value that does
not fit its type is refused with a `ConfigError`. A name that means nothing here is kept and ignored,
with a logged warning, unless it begins with `hiveacid.`: that is an error.
"""

ERRORS_HEAD = """# Errors

Everything that hiveacid raises on purpose is a `hiveacid.HiveAcidError`. Each class has a stable
`code` (Hive's number where Hive has one) and says with `retryable` whether the same statement may
succeed if it is simply tried again. The message names what happened and what to do.

A statement on a transactional table that raises has changed nothing: what it wrote belongs to an aborted
transaction, and no reader believes it. The one exception says so in its name: `CommitStateUnknownError`.
(DROP … CASCADE and COMPACT of several partitions are several steps: those before the error stay done. Plain
tables have no transactions.)

A DataFrame runs when you ask for its rows, outside of our verbs: what goes wrong then (a corrupt file, a
division by zero) is Spark's own exception, with the file's path in its text.

The command line prints code and message on standard error and ends with exit code 1 (2 for a wrong
call).

| class | code | retryable | meaning |
|---|---|---|---|
"""

CHECK_HEAD = """# Check

`hiveacid check TABLE` looks at a table's invariants, from the names of its directories down to every row: names,
side files, footers, order and uniqueness of row ids, the bucket of each row, delete events without a row, files
that cannot be read, what was left behind, partitions on disk and in the catalog. It changes nothing.

- `--quick` looks at names, side files and footers only: no Spark, no row is read.
- `--partition p=1` looks at one partition (or those of the first columns).
- Exit code 1 where there is damage, 0 otherwise; warnings and notes do not count.
- `-o json` prints one object a finding: severity, code, partition, path, message, advice.

In Python: `acid.table("t").inspect.check()` returns the findings, worst first.

**damage**: rows are wrong, lost or unreadable. **warning**: another engine goes wrong, or rows may be missing.
**note**: harmless; upkeep, or worth knowing.

| severity | code | what it means | what to do |
|---|---|---|---|
"""

CLI_HEAD = """# Command line

`hiveacid` has a command for each job; all of them have `--help`. `-w` names the warehouse directory; without
it `HIVEACID_WAREHOUSE` counts. `--store` names a store on a server; without it `HIVEACID_STORE` counts, and
without both the store is a file in the warehouse. A password is never taken from `--store`, because everybody
on the machine could read it there: see [Operate](operate.md).

- Exit code 0; 1 on an error; 2 on a wrong call.
- Results go to standard output, everything else to standard error. Errors carry a [code](errors.md) and,
  for SQL, line and column.
- `-o json` prints one JSON object a row (JSON lines) with the column names as keys, and nothing else.
"""
STATES_HEAD = """# Life cycles

What states a transaction, a lock request and a compaction go through. These tables are the ones that the
program itself goes by (`src/hiveacid/core/states.py`): what is not in them does not happen.
"""
WIDTH = 100  # of the help texts


def setting_row(setting: AnySetting) -> str:
    """Return a row of the settings table."""
    kind = setting.kind.replace("|", "\\|")
    relation = f" ({setting.hive}.)" if setting.hive else ""
    effect = "" if setting.name in asked_for() else " *No effect yet.*"
    return f"| `{setting.name}` | {kind} | `{setting.default}` | {setting.doc}{relation}{effect} |"


@cache
def asked_for() -> frozenset[str]:
    """Return the names of the settings whose constants (``keys.NAME``) stand somewhere in the code."""
    texts = (path.read_text(encoding="utf-8") for path in CODE.rglob("*.py"))
    constants = {found for text in texts for found in re.findall(r"\bkeys\.([A-Z_]+)\b", text)}
    return frozenset(getattr(keys, constant).name for constant in constants)


def section_text(section: Section) -> str:
    """Return a section of the settings page."""
    rows = "\n".join(setting_row(setting) for setting in section.settings)
    return f"\n## {section.title}\n\n| name | type | default | meaning |\n|---|---|---|---|\n{rows}\n"


def error_rows(cls: type[HiveAcidError], depth: int = 0) -> list[str]:
    """Return the rows of an error class and all below it, in the order of their definition."""
    summary = (cls.__doc__ or "").strip().splitlines()[0]
    retryable = "yes" if cls.retryable else ""
    indent = "&nbsp;&nbsp;" * depth
    row = f"| {indent}`{cls.__name__}` | {cls.code} | {retryable} | {summary} |"
    below = [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
    return [row, *(line for child in below for line in error_rows(child, depth + 1))]


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


def finding_row(kind: Kind) -> str:
    """Return a row of the table of findings."""
    return f"| {kind.severity} | `{kind.code}` | {kind.meaning} | {kind.advice} |"


def cli_page() -> str:
    """Return the page of the command line."""
    texts = help_texts(command_line, "hiveacid")
    return CLI_HEAD + "".join(f"\n## {name}\n\n```text\n{text}\n```\n" for name, text in texts)


def machine_text(machine: Machine) -> str:
    """Return a life cycle as a table and as a picture."""
    rows = "".join(f"| {one.source} | {one.event} | {one.target} |\n" for one in machine.transitions)
    return (
        f"\n## {machine.noun.capitalize()}\n\n| state | event | next state |\n|---|---|---|\n{rows}"
        f"\nIt begins as {machine.start} and ends as {' or '.join(machine.final_states)}.\n"
        f"\n```mermaid\n{draw(machine)}```\n"
    )


def pages() -> dict[str, str]:
    """Return the content of every generated page by its file name."""
    return {
        "settings.md": NOTE + SETTINGS_HEAD + "".join(section_text(section) for section in keys.SECTIONS),
        "cli.md": NOTE + cli_page(),
        "states.md": NOTE + STATES_HEAD + "".join(map(machine_text, (TRANSACTION, LOCK, COMPACTION))),
        "check.md": NOTE + CHECK_HEAD + "\n".join(map(finding_row, Kind)) + "\n",
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
