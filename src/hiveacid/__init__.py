"""Hive ACID tables for PySpark: create, read, change, merge and compact them, without Hive.

The public names, and nothing else. They are imported at their first use, so that ``import hiveacid``
needs neither Spark nor a database driver and takes milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid import errors
    from hiveacid.arrow.warehouse import open_warehouse as open  # noqa: A004 - hiveacid.open(...)
    from hiveacid.errors import HiveAcidError
    from hiveacid.sql.native.session import configure
    from hiveacid.sql.session import AcidSession, connect

__version__ = "0.1.0"

__all__ = ["AcidSession", "HiveAcidError", "__version__", "configure", "connect", "errors", "open"]

_HOMES = (
    ("AcidSession", "hiveacid.sql.session", "AcidSession"),
    ("HiveAcidError", "hiveacid.errors", "HiveAcidError"),
    ("configure", "hiveacid.sql.native.session", "configure"),
    ("connect", "hiveacid.sql.session", "connect"),
    ("open", "hiveacid.arrow.warehouse", "open_warehouse"),
)


def __getattr__(name: str) -> object:
    """Import a public name from its home (PEP 562)."""
    for public, home, own in _HOMES:
        if public == name:
            try:
                return getattr(import_module(home), own)
            except ModuleNotFoundError as error:
                if error.name not in ("pyspark", "py4j"):
                    raise
                message = f"hiveacid.{name} needs PySpark: pip install 'hiveacid[spark]'"
                raise ModuleNotFoundError(message, name=error.name) from error
    if name in __all__:
        return import_module(f"hiveacid.{name}")
    message = f"module 'hiveacid' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
