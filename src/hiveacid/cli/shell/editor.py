"""Editor of lines on a terminal, with completion and a history without secrets (prompt_toolkit)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth

from hiveacid.cli.shell.completion import Candidate
from hiveacid.cli.shell.entries import is_complete

Complete = Callable[[str, int], "list[Candidate]"]
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


class _Completer(Completer):
    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        for candidate in self._complete(document.text, document.cursor_position):
            yield Completion(candidate.text, start_position=-candidate.length, display_meta=candidate.kind)


class Editor:
    """Edits one entry of several lines at a time, with history (arrow up, Ctrl-R) and completion (Tab)."""

    def __init__(self, complete: Complete, say: Callable[[str], None]) -> None:
        """``complete`` returns candidates for a position in a text. ``say`` prints why no history can be kept."""
        history, trouble = open_history(history_path(dict(os.environ)))
        if trouble:
            say(trouble)
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=_Completer(complete),
            complete_while_typing=False,
            multiline=True,
            key_bindings=_bindings(),
            color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None,
        )

    def read(self, prompt: str) -> str:
        """Return what was typed. Raises EOFError for Ctrl-D, KeyboardInterrupt for Ctrl-C."""
        return self._session.prompt(prompt, prompt_continuation=continued(prompt))


def continued(prompt: str) -> str:
    """Return the prompt of the second and later lines of a statement."""
    return "-> ".rjust(len(prompt))


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    def enter(event: KeyPressEvent) -> None:
        """Run a complete entry; otherwise begin a new line. In the completion menu, take the selected candidate."""
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    bindings.add("enter")(enter)
    return bindings


def typed_entries(editor: Editor, prompt: Callable[[], str]) -> Iterator[str | None]:
    """Yield typed entries; None for Ctrl-C, which discards the current one. Ctrl-D ends."""
    while True:
        try:
            yield editor.read(prompt())
        except KeyboardInterrupt:
            yield None
        except EOFError:
            return
