"""Command line ``hiveacid``: the list of all commands, and a module for each.

`main` is the group of all commands. It imports a command's module when that is called, so that ``hiveacid --help`` loads
neither PySpark nor SQLAlchemy. For the same reason the modules import these, Arrow and rich inside the functions. Commands
that only look at the store or at files open them without Spark (`options.ConnectionOptions`).

Rows go to standard output, everything else to standard error. An error ends a command with exit code 1, and its message
carries a code. Texts that come from tables or messages are escaped before they reach a terminal (`options.escape_controls`).
"""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import get_completion_class

import hiveacid

_COMMANDS = {
    "sql": ("hiveacid.cli.sql:sql", "Run SQL statements."),
    "shell": ("hiveacid.cli.shell:shell", "Type SQL statements, with history and completion."),
    "table": ("hiveacid.cli.table:table", "List and inspect tables."),
    "ingest": ("hiveacid.cli.ingest:ingest", "Write lines of files or of a pipe into a table."),
    "txn": ("hiveacid.cli.table:txn", "List and abort transactions."),
    "locks": ("hiveacid.cli.table:locks", "List locks."),
    "check": ("hiveacid.cli.table:check", "Check a table for damage."),
    "compact": ("hiveacid.cli.table:compact", "Compact a table or partition."),
    "services": ("hiveacid.cli.services:services", "Compact and clean in the background, until stopped."),
    "serve": ("hiveacid.cli.serve:serve", "Serve JDBC clients over the protocol of HiveServer2."),
    "web": ("hiveacid.cli.web:web", "Show tables, transactions and compactions in a browser."),
    "completion": ("hiveacid.cli:completion", "Let Tab complete in bash, zsh or fish."),
    "migrate": ("hiveacid.cli.moves:migrate", "Move tables from one store to another."),
    "backup": ("hiveacid.cli.moves:backup", "Copy a warehouse while it is in use."),
    "relocate": ("hiveacid.cli.moves:relocate", "Make a copied or moved warehouse usable."),
    "doctor": ("hiveacid.cli.doctor:doctor", "Check the installation on this machine."),
}


class LazyGroup(click.Group):
    """Group of commands that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the help page."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)  # noqa: S101 - tells the type checker
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hiveacid.__version__, prog_name="hiveacid")
def main() -> None:
    """Hive ACID tables for PySpark.

    Exit code 0; 1 on an error; 2 on a wrong call. Results go to standard output, everything else to standard
    error.
    """


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets Tab complete commands and options.

    bash: eval "$(hiveacid completion bash)" in ~/.bashrc; zsh the same in ~/.zshrc; fish: hiveacid completion
    fish > ~/.config/fish/completions/hiveacid.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click supports all of the choices
    click.echo(kind(ctx.find_root().command, {}, "hiveacid", "_HIVEACID_COMPLETE").source())
