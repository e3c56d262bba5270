"""History of typed statements: a file without secrets that only its owner may read."""

from __future__ import annotations

import os
import re
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_SECRET = re.compile(
    r"passw|passphrase|\bpwd\b|secret|token|credential|(?:access|account|private|api)[._-]?key"
    r"|\bidentified\s+by\b|://[^\s/@:]*:[^\s/@]+@",
    re.IGNORECASE,
)
_OWNER_ONLY = 0o600


def is_secret(text: str) -> bool:
    """Tell whether a text may hold a password or key, so that it must not be kept."""
    return _SECRET.search(text) is not None


def history_path(environment: dict[str, str]) -> Path:
    """Return the path of the history: ``$XDG_STATE_HOME/hiveacid/history``, by default in ``~/.local/state``."""
    state = environment.get("XDG_STATE_HOME", "")
    # XDG specification: a relative path in the variable must be ignored
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "hiveacid" / "history"


class PrivateHistory(FileHistory):
    """History in a file of mode 0600; statements that may hold a password stay in memory only."""

    def store_string(self, string: str) -> None:
        """Write one entry, unless it may hold a secret."""
        if not is_secret(string):
            super().store_string(string)


def open_history(path: Path) -> tuple[History, str]:
    """Open the history file. If that fails, return a history in memory, and the reason as second value (else '')."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, _OWNER_ONLY)
        try:
            os.fchmod(descriptor, _OWNER_ONLY)
        finally:
            os.close(descriptor)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        return InMemoryHistory(), f"no history is kept: {error}"
    return PrivateHistory(str(path)), ""
