"""Hive ACID tables for PySpark: create, read, change, merge and compact them, without Hive.

The public names, and nothing else. They are imported at their first use, so that ``import hiveacid``
needs neither Spark nor a database driver and takes milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid import errors
    from hiveacid.errors import HiveAcidError
    from hiveacid.sql.native.builder import configure
    from hiveacid.sql.session import AcidSession, connect

__version__ = "0.1.0"

__all__ = ["AcidSession", "HiveAcidError", "__version__", "configure", "connect", "errors"]

_HOMES = (
    ("AcidSession", "hiveacid.sql.session"),
    ("HiveAcidError", "hiveacid.errors"),
    ("configure", "hiveacid.sql.native.builder"),
    ("connect", "hiveacid.sql.session"),
)


def __getattr__(name: str) -> object:
    """Import a public name from its home (PEP 562)."""
    home = dict(_HOMES).get(name)
    if home is not None:
        return getattr(import_module(home), name)
    if name in __all__:
        return import_module(f"hiveacid.{name}")
    message = f"module 'hiveacid' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
