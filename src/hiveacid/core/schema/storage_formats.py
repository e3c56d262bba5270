"""Classes of STORED AS and ROW FORMAT: Hive's SerDe, input and output formats.

From Hive's ``StorageFormatDescriptor`` classes and, for ROW FORMAT DELIMITED, from
``BaseSemanticAnalyzer.RowFormatParams``. Class names are those that SHOW CREATE TABLE prints.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from hiveacid.core.model import StorageFormat, TableDefinition
from hiveacid.errors import UnsupportedFeatureError

_IO = "org.apache.hadoop.hive.ql.io"
_SERDE = "org.apache.hadoop.hive.serde2"

ORC = StorageFormat(f"{_IO}.orc.OrcSerde", f"{_IO}.orc.OrcInputFormat", f"{_IO}.orc.OrcOutputFormat")
PARQUET = StorageFormat(
    f"{_IO}.parquet.serde.ParquetHiveSerDe",
    f"{_IO}.parquet.MapredParquetInputFormat",
    f"{_IO}.parquet.MapredParquetOutputFormat",
)
TEXTFILE = StorageFormat(
    f"{_SERDE}.lazy.LazySimpleSerDe",
    "org.apache.hadoop.mapred.TextInputFormat",
    f"{_IO}.HiveIgnoreKeyTextOutputFormat",
)
AVRO = StorageFormat(
    f"{_SERDE}.avro.AvroSerDe",
    f"{_IO}.avro.AvroContainerInputFormat",
    f"{_IO}.avro.AvroContainerOutputFormat",
)
JSONFILE = replace(TEXTFILE, serde=f"{_SERDE}.JsonSerDe")
SEQUENCEFILE = StorageFormat(
    TEXTFILE.serde, "org.apache.hadoop.mapred.SequenceFileInputFormat", f"{_IO}.HiveSequenceFileOutputFormat"
)
RCFILE = StorageFormat(
    f"{_SERDE}.columnar.LazyBinaryColumnarSerDe", f"{_IO}.RCFileInputFormat", f"{_IO}.RCFileOutputFormat"
)

_BY_NAME = {
    "orc": ORC,
    "orcfile": ORC,
    "parquet": PARQUET,
    "parquetfile": PARQUET,
    "textfile": TEXTFILE,
    "avro": AVRO,
    "avrofile": AVRO,
    "jsonfile": JSONFILE,
    "sequencefile": SEQUENCEFILE,
    "rcfile": RCFILE,
}


FIELD_DELIMITER = "field.delim"
SERIALIZATION_FORMAT = "serialization.format"
ESCAPE_DELIMITER = "escape.delim"
COLLECTION_DELIMITER = "collection.delim"
MAP_KEY_DELIMITER = "mapkey.delim"
LINE_DELIMITER = "line.delim"
NULL_FORMAT = "serialization.null.format"
"""SerDe properties of the clauses of ROW FORMAT DELIMITED."""


class FileKind(StrEnum):
    """The kinds of data file that this project can read and write."""

    ORC = "orc"
    PARQUET = "parquet"
    TEXTFILE = "textfile"
    AVRO = "avro"


def storage_format(name: str) -> StorageFormat | None:
    """Return the classes of ``STORED AS name``, None for an unknown name."""
    return _BY_NAME.get(name.lower())


def file_kind(storage: StorageFormat) -> FileKind | None:
    """Return the kind of a table's files, from its classes; None for classes that hiveacid does not support.

    Text files are supported only with Hive's own SerDe for delimited text (not CSV, JSON or regular expressions).
    """
    kinds = {
        (ORC.serde, ORC.input_format): FileKind.ORC,
        (PARQUET.serde, PARQUET.input_format): FileKind.PARQUET,
        (TEXTFILE.serde, TEXTFILE.input_format): FileKind.TEXTFILE,
        (AVRO.serde, AVRO.input_format): FileKind.AVRO,
    }
    return kinds.get((storage.serde, storage.input_format))


def is_orc(storage: StorageFormat) -> bool:
    """Tell whether the files are ORC, whatever their SerDe."""
    return storage.input_format.endswith("OrcInputFormat")


def differs_in_layout(one: StorageFormat, other: StorageFormat) -> bool:
    """Tell whether files of one format cannot be read as those of the other.

    SerDe properties count for text only, where they are the delimiters; ``path`` is an addition of Spark's.
    """
    if (one.serde, one.input_format) != (other.serde, other.input_format):
        return True
    return file_kind(one) is FileKind.TEXTFILE and _effective(one) != _effective(other)


def _effective(storage: StorageFormat) -> dict[str, str]:
    """Return the SerDe properties that decide the layout.

    Hive 4 leaves the others out of a table's definition, but not out of those of its older partitions.
    """
    properties = {key.lower(): value for key, value in storage.serde_properties if key.lower() != "path"}
    if FIELD_DELIMITER in properties or properties.get(SERIALIZATION_FORMAT) == "1":
        properties.pop(SERIALIZATION_FORMAT, None)
    return properties


def supported_file_kind(table: TableDefinition) -> FileKind:
    """Return the kind of a table's files. Raises UnsupportedFeatureError for kinds that hiveacid does not support."""
    kind = file_kind(table.storage)
    if kind is None:
        raise UnsupportedFeatureError(
            f"table {table.name}: files of {table.storage.input_format} with SerDe {table.storage.serde} "
            "can be neither read nor written: use ORC, PARQUET, TEXTFILE or AVRO"
        )
    return kind


@dataclass(frozen=True)
class Delimiters:
    """The clauses of ROW FORMAT DELIMITED; None for each clause that is absent."""

    fields: str | None = None  # FIELDS TERMINATED BY
    escape: str | None = None  # ESCAPED BY
    items: str | None = None  # COLLECTION ITEMS TERMINATED BY
    map_keys: str | None = None  # MAP KEYS TERMINATED BY
    lines: str | None = None  # LINES TERMINATED BY
    null: str | None = None  # NULL DEFINED AS

    def serde_properties(self) -> tuple[tuple[str, str], ...]:
        """Return the SerDe properties that Hive makes of them, sorted by key.

        The field delimiter is also kept as ``serialization.format``, as Hive does.
        """
        keys = {
            "fields": (FIELD_DELIMITER, SERIALIZATION_FORMAT),
            "escape": (ESCAPE_DELIMITER,),
            "items": (COLLECTION_DELIMITER,),
            "map_keys": (MAP_KEY_DELIMITER,),
            "lines": (LINE_DELIMITER,),
            "null": (NULL_FORMAT,),
        }
        written = {
            key: value
            for clause in fields(self)
            if (value := getattr(self, clause.name)) is not None
            for key in keys[clause.name]
        }
        return tuple(sorted(written.items()))
