"""Options of ``format("hiveacid")``: the table, its warehouse and store, and the name of a query."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hiveacid.core.schema.location_overlap import STORE_DIRECTORY
from hiveacid.errors import ConfigError, HiveAcidError
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.paths import absolute

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
# Options of each interface. Spark converts the names to lower case and adds no options of its own.
_ADDRESS = frozenset({"table", "warehouse", "store"})
READ = _ADDRESS | {"as_of"}
WRITE = _ADDRESS
READ_STREAM = _ADDRESS | {
    *("changes", "ignore_changes", "starting", "starting_write_id", "on_history_gone"),
    *("max_write_ids_per_trigger", "max_bytes_per_trigger"),
}
WRITE_STREAM = _ADDRESS | {"query_name", "queryname", "checkpointlocation", "restart"}

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no", "")
_STARTS = ("latest", "earliest", "snapshot")


@dataclass(frozen=True)
class TableAddress:
    """Name of a table, its warehouse and its store; the latter two as in `hiveacid.connect`."""

    table: str
    warehouse: str | None
    store: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TableAddress:
        """Read ``table``, ``warehouse``, ``store``. Raises ConfigError."""
        table = options.get("table", "").strip()
        warehouse, store = options.get("warehouse"), options.get("store")
        if not table:
            raise ConfigError('format("hiveacid") needs .option("table", "db.t")')
        if not warehouse and not store:
            raise ConfigError(
                'format("hiveacid") needs .option("warehouse", DIRECTORY), or .option("store", URL) as well'
            )
        if warehouse is not None and not warehouse.startswith("/") and not _URI.match(warehouse):
            raise ConfigError(
                f"warehouse={warehouse}: Spark's Python workers have a working directory of their own; give the whole path"
            )
        return cls(table, warehouse, store)


def require_known(options: Mapping[str, str], allowed: frozenset[str]) -> None:
    """Raise ConfigError for unknown options: a misspelt ``as_of`` must not read the current state."""
    unknown = sorted(set(options) - allowed)
    if unknown:
        raise ConfigError(
            f'format("hiveacid") does not know the option {", ".join(unknown)} here; it knows {", ".join(sorted(allowed))}'
        )


def require_warehouse(options: Mapping[str, str]) -> None:
    """Raise ConfigError if the warehouse does not exist: opening it would create an empty one."""
    address = TableAddress.of(options)
    if address.warehouse is None or address.store is not None:
        return
    root = absolute(address.warehouse)
    if not Path(root, STORE_DIRECTORY).is_dir():
        raise ConfigError(
            f"warehouse={address.warehouse}: no warehouse is there, as the driver's machine sees it; create one with "
            "hiveacid.connect(spark, warehouse=...) and CREATE TABLE"
        )


def query_of(options: Mapping[str, str]) -> str:
    """Return the name of the query in its table. Raises ConfigError without one."""
    name = options.get("query_name") or options.get("queryname") or ""
    if not name.strip():
        raise ConfigError(
            'format("hiveacid") needs .option("query_name", NAME), or .queryName(NAME): under this name the table keeps '
            "the progress of the query"
        )
    return name


def flag_of(options: Mapping[str, str], name: str) -> bool:
    """Return a boolean option, False if it is not given: true, 1, yes, false, 0 or no. Raises ConfigError for others."""
    text = options.get(name, "").strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise ConfigError(f"{name}={text}: it must be true or false")
    return text in _TRUE


def checkpoint_of(options: Mapping[str, str]) -> str:
    """Return the id in a query's checkpoint (Spark writes it to ``metadata`` before the first batch).

    Raises ConfigError if it cannot be read.
    """
    location = options.get("checkpointlocation")
    if not location:
        raise ConfigError(
            'format("hiveacid") needs .option("checkpointLocation", DIRECTORY): it does not see the session\'s default'
        )
    file = f"{location.rstrip('/')}/metadata"
    try:
        checkpoint_id: str = json.loads(AnyFileSystem().read_bytes(absolute(file)))["id"]
    except (HiveAcidError, ValueError, KeyError) as error:
        raise ConfigError(
            f"the checkpoint's id can't be read from {file}: {error}; it tells a restart from a new checkpoint"
        ) from error
    return checkpoint_id


def count_of(options: Mapping[str, str], name: str) -> int | None:
    """Return a positive number, None if the option is not given. Raises ConfigError."""
    text = options.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ConfigError(f"{name}={text}: it must be a number from 1 on")
    return int(text)


def choice_of(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Return one of ``choices``, the first if the option is not given. Raises ConfigError."""
    text = options.get(name, choices[0]).strip().lower()
    if text not in choices:
        raise ConfigError(f"{name}={text}: it must be one of {', '.join(choices)}")
    return text


@dataclass(frozen=True)
class ChangeOptions:
    """Options of a streaming query over changes; see docs/stream.md."""

    table: str
    warehouse: str | None
    store: str | None
    changes: bool = False
    ignore_changes: bool = False
    starting: str = "latest"
    starting_write_id: int | None = None
    snapshot_where_gone: bool = False
    max_write_ids: int | None = None
    max_bytes: int | None = None


def parse_change_options(options: Mapping[str, str], address: TableAddress) -> ChangeOptions:
    """Read the options of a source (docs/stream.md). Raises ConfigError."""
    change_options = ChangeOptions(
        address.table,
        address.warehouse,
        address.store,
        changes=flag_of(options, "changes"),
        ignore_changes=flag_of(options, "ignore_changes"),
        starting=choice_of(options, "starting", _STARTS),
        starting_write_id=count_of(options, "starting_write_id"),
        snapshot_where_gone=choice_of(options, "on_history_gone", ("fail", "snapshot")) == "snapshot",
        max_write_ids=count_of(options, "max_write_ids_per_trigger"),
        max_bytes=count_of(options, "max_bytes_per_trigger"),
    )
    if change_options.starting_write_id is not None and "starting" in options:
        raise ConfigError("starting and starting_write_id both set the start of the stream: give one of them")
    if change_options.changes and change_options.ignore_changes:
        raise ConfigError("changes and ignore_changes contradict each other: give one of them")
    return change_options
