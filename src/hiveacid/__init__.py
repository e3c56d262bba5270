"""Hive ACID tables for PySpark: create, read, change, merge and compact them, without Hive.

The public functions, the classes of what they return, and nothing else. They are imported at their first use, so that
``import hiveacid`` needs neither Spark nor a database driver and takes milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid import errors
    from hiveacid.arrow.table import ArrowTable, ScanPlan
    from hiveacid.arrow.warehouse import ArrowWarehouse
    from hiveacid.arrow.warehouse import open_warehouse as open  # noqa: A004 - hiveacid.open(...)
    from hiveacid.errors import HiveAcidError
    from hiveacid.sql.native.session import configure
    from hiveacid.sql.session import AcidSession, connect
    from hiveacid.table.acid_table import AcidTable, Scan

__version__ = "0.1.0"

__all__ = [
    "AcidSession",
    "AcidTable",
    "ArrowTable",
    "ArrowWarehouse",
    "HiveAcidError",
    "Scan",
    "ScanPlan",
    "__version__",
    "configure",
    "connect",
    "errors",
    "open",
]

_HOMES = {
    "AcidSession": "sql.session.AcidSession",
    "AcidTable": "table.acid_table.AcidTable",
    "ArrowTable": "arrow.table.ArrowTable",
    "ArrowWarehouse": "arrow.warehouse.ArrowWarehouse",
    "HiveAcidError": "errors.HiveAcidError",
    "Scan": "table.acid_table.Scan",
    "ScanPlan": "arrow.table.ScanPlan",
    "configure": "sql.native.session.configure",
    "connect": "sql.session.connect",
    "open": "arrow.warehouse.open_warehouse",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home (PEP 562)."""
    if name == "errors":
        return import_module("hiveacid.errors")
    if name not in _HOMES:
        message = f"module 'hiveacid' has no attribute {name!r}"
        raise AttributeError(message)
    home, _, own = _HOMES[name].rpartition(".")
    try:
        return getattr(import_module(f"hiveacid.{home}"), own)
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        message = f"hiveacid.{name} needs PySpark: pip install 'hiveacid[spark]'"
        raise ModuleNotFoundError(message, name=error.name) from error


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
