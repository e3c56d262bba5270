"""``hiveacid completion``: completion scripts for bash, zsh and fish."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets Tab complete commands and options.

    bash: eval "$(hiveacid completion bash)" in ~/.bashrc; zsh the same in ~/.zshrc; fish: hiveacid completion
    fish > ~/.config/fish/completions/hiveacid.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click supports all of _SHELLS
    click.echo(kind(ctx.find_root().command, {}, "hiveacid", "_HIVEACID_COMPLETE").source())
