"""Options of a table's new files: layout level, codec, stripe size, by its properties or the session's settings."""

from __future__ import annotations

from hiveacid.config import Settings, property_definitions, setting_definitions
from hiveacid.core.format.names import LayoutLevel, staged_column
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.errors import ConfigError, UnsupportedFeatureError
from hiveacid.table.context import layout_level

_MISREAD_TYPES = frozenset({"date", "float", "double"})
"""Types whose bloom filters would lose rows of tables that are not full ACID, in Spark as in hiveacid.

Spark's push-down then asks the filter for a day before 1582-10-15 in the other calendar, and for 0.0 but not for -0.0.
Conditions on full ACID tables are made by ``spark.predicates``, which avoids both.
"""


def writer_options(table: TableDefinition, settings: Settings) -> dict[str, str]:
    """Return options of Spark's ORC or Parquet writer: codec, and stripe size, row index stride and bloom filters if set.

    Raises ConfigError for an unknown codec, UnsupportedFeatureError for one that Hive 3.1 cannot read.
    """
    options = {
        "orc.stripe.size": setting_definitions.ORC_STRIPE_SIZE,
        "orc.row.index.stride": setting_definitions.ORC_ROW_INDEX_STRIDE,
    }
    # Hive's defaults are those of ORC, which Spark's own configuration may change.
    changed = dict(settings.changed)
    overrides = {name: str(settings.get(key)) for name, key in options.items() if key.name in changed}
    if file_kind(table.storage) is FileKind.PARQUET:
        codec = _known_codec(
            table, property_definitions.PARQUET_COMPRESSION, property_definitions.PARQUET_COMPRESSION.default
        )
    else:
        codec = orc_codec(table, settings)
        overrides |= _bloom_filters(table)
    return {"compression": codec, **overrides}


def _bloom_filters(table: TableDefinition) -> dict[str, str]:
    columns, rate = property_definitions.ORC_BLOOM_FILTER_COLUMNS, property_definitions.ORC_BLOOM_FILTER_FPP
    listed = {name.strip().lower() for name in (columns.of(table) or "").split(",")}
    excluded = () if table.kind is TableKind.FULL_ACID else _MISREAD_TYPES
    names = [
        staged_column(i)
        for i, column in enumerate(table.columns)
        if column.name.lower() in listed and column.type not in excluded
    ]
    if not names:
        return {}
    options = {columns.name: ",".join(names)}
    share = rate.of(table)
    if share is None:
        return options
    try:
        rate.check(share)
    except ConfigError as error:  # another engine may have set it
        raise ConfigError(f"{table.name}: {rate.name}: {error}") from None
    return options | {rate.name: share}


def orc_codec(table: TableDefinition, settings: Settings, *, for_stream: bool = False) -> str:
    """Return the codec of new ORC files in lower case: by the table's property, else by the setting.

    Raises ConfigError for an unknown codec, UnsupportedFeatureError for one that Hive 3.1 cannot read.
    """
    of_hive3 = layout_level(table, settings) is LayoutLevel.HIVE3
    default = settings.get(setting_definitions.ORC_COMPRESS)
    if default == "AUTO" and not of_hive3:
        default = "ZSTD"
    elif default == "AUTO":  # ZLIB is the default of Hive 3.1. SNAPPY is written in an eighth of its time.
        default = "SNAPPY" if for_stream else "ZLIB"
    codec = _known_codec(table, property_definitions.ORC_COMPRESS, default)
    if codec == "zstd" and of_hive3:
        raise UnsupportedFeatureError(
            f"{table.name}: Hive 3.1 cannot read ORC files with ZSTD: take ZLIB, SNAPPY or LZ4 "
            f"({property_definitions.ORC_COMPRESS.name}, {setting_definitions.ORC_COMPRESS.name})"
        )
    return codec


def _known_codec(table: TableDefinition, key: property_definitions.TableProperty, default: str) -> str:
    codec, choices = (key.of(table) or default).strip(), key.kind.split(" | ")
    if codec.upper() not in choices:
        raise ConfigError(f"{table.name}: {key.name} is {codec!r}, not one of {', '.join(choices)}")
    return codec.lower()
