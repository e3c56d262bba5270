"""``python -m hiveacid``: the command line."""

from __future__ import annotations

from hiveacid.cli import main

main(prog_name="hiveacid")
