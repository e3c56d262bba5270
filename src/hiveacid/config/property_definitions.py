"""Registry of table properties: every key of TBLPROPERTIES or SERDEPROPERTIES that the code reads or writes.

Other keys are kept with the table and shown, and change nothing. ``tools/generated_pages.py`` generates the page
``docs/table-properties.md`` from this module. The package ``core`` must not import this module. The
names of keys that ``core`` reads are therefore constants of ``core``, which this module imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hiveacid.config import setting_definitions
from hiveacid.config.setting_definitions import REGISTRY, Settings
from hiveacid.config.setting_types import (
    Section,
    choice,
    divide_into_sections,
    parse_bool,
    parse_duration,
    parse_fraction,
    parse_int,
)
from hiveacid.core import model
from hiveacid.core.compaction.initiation_and_retry_policy import parse_quiet_hours
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema import evolution, storage_formats

_PARSERS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {
        "bool": parse_bool,
        "int": parse_int,
        "duration": parse_duration,
        "fraction": parse_fraction,
        setting_definitions.QUIET_HOURS: parse_quiet_hours,
    }
)


@dataclass(frozen=True)
class TableProperty:
    """A table property. Keys are compared without case, as in Hive.

    ``kind``: type of its value as documented for users. ``default``: what applies without the property, in words for
    users. ``origin``: the project that defines the key.
    """

    name: str
    kind: str
    default: str
    doc: str
    origin: str = "Hive"

    def of(self, table: TableDefinition) -> str | None:
        """Return the text of the property of a table; None if the table does not have it."""
        return table.property(self.name)

    def is_set(self, *groups: Iterable[tuple[str, str]]) -> bool:
        """Tell whether one of these groups of properties (of a table, its database, a partition) has the property as true."""
        texts = [text for group in groups for key, text in group if key.lower() == self.name]
        return any(text.strip().lower() == "true" for text in texts)

    def check(self, text: str) -> None:
        """Raise ConfigError for a text that is not a value of this kind. Kinds such as ``text`` accept every text."""
        if " | " in self.kind:
            choice(self.name, tuple(self.kind.split(" | ")), self.doc).parse(text)
        elif self.kind in _PARSERS:
            _PARSERS[self.kind](text)


# --- kind of the table --------------------------------------------------------------------------
TRANSACTIONAL = TableProperty(
    model.TRANSACTIONAL, "true", "absent", "Makes the table transactional. It cannot be undone."
)
TRANSACTIONAL_PROPERTIES = TableProperty(
    model.TRANSACTIONAL_PROPERTIES,
    "default | insert_only",
    "default",
    "default: full ACID, which needs ORC. insert_only: rows are added and overwritten, never updated or deleted; every "
    "format.",
)
BUCKETING_VERSION = TableProperty(
    model.BUCKETING_VERSION,
    "1 | 2",
    "2 for new tables, 1 for tables without it",
    "Hash function that decides the bucket of a row. It cannot be changed.",
)

# --- files --------------------------------------------------------------------------------------
LAYOUT_LEVEL = TableProperty(
    setting_definitions.LAYOUT_LEVEL.name,
    setting_definitions.LAYOUT_LEVEL.kind,
    "the setting",
    setting_definitions.LAYOUT_LEVEL.doc,
    "hiveacid",
)
SINGLE_BUCKET = TableProperty(
    setting_definitions.SINGLE_BUCKET.name,
    setting_definitions.SINGLE_BUCKET.kind,
    "the setting",
    "New rows of a full ACID table that is not bucketed go to bucket_00000 only, as Trino needs it.",
    "hiveacid",
)
ORC_COMPRESS = TableProperty(
    "orc.compress",
    " | ".join(setting_definitions.ORC_CODECS),
    f"the setting {setting_definitions.ORC_COMPRESS.name}",
    "Codec of new ORC files.",
    "ORC",
)
ORC_POSITIONAL = TableProperty(
    evolution.ORC_POSITIONAL,
    "bool",
    "as hiveacid.layout.level says",
    "true: columns of ORC files are matched by position; false: by name.",
    "ORC",
)
ORC_BLOOM_FILTER_COLUMNS = TableProperty(
    "orc.bloom.filter.columns",
    "text",
    "absent",
    "Names, separated by commas, of columns for which new files that Spark writes get bloom filters. Queries of single "
    "values then read only the row groups that may hold them. Names of other things than columns have no effect. "
    "Nor have columns of the types DATE, FLOAT and DOUBLE in tables that are not full ACID, since Spark would lose rows.",
    "ORC",
)
ORC_BLOOM_FILTER_FPP = TableProperty(
    "orc.bloom.filter.fpp",
    "fraction",
    "0.01",
    "False-positive rate of the bloom filters: above 0, below 1.",
    "ORC",
)
PARQUET_COMPRESSION = TableProperty(
    "parquet.compression",
    "UNCOMPRESSED | SNAPPY | GZIP | ZSTD",
    "SNAPPY",
    "Codec of new Parquet files.",
    "Parquet",
)

# --- compaction, cleaning and history -----------------------------------------------------------
NO_AUTO_COMPACTION = TableProperty(
    "no_auto_compaction",
    "bool",
    "false",
    "true: the initiator leaves the table alone; COMPACT still works. Also a property of a database.",
)
NO_CLEANUP = TableProperty(
    "no_cleanup",
    "bool",
    "false",
    "true: the cleaner removes nothing. Also a property of a database or partition.",
)
COMPACTOR_THRESHOLD = TableProperty(
    "compactorthreshold.NAME",
    "as the setting NAME",
    "the setting NAME",
    "Overrides the setting NAME for compactions of the table, such as "
    "`compactorthreshold.hive.compactor.delta.num.threshold`; in Hive for the initiator only. Also a property of a "
    "database.",
)
COMPACTOR = TableProperty(
    "compactor.NAME",
    "as the setting NAME",
    "the setting NAME",
    "Overrides the setting NAME for compactions of the table, as compactorthreshold.NAME does. Also a property of a "
    "database, or of one compaction (WITH OVERWRITE TBLPROPERTIES).",
)
WORKER_POOL = TableProperty(
    setting_definitions.WORKER_POOL.name,
    "text",
    "the setting",
    "Pool whose workers compact the table. Also a property of a database.",
)
PRIORITY = TableProperty(
    setting_definitions.PRIORITY.name,
    "int",
    "the setting",
    "Compactions of a higher priority are taken first. Also a property of a database.",
    "hiveacid",
)
MAJOR_INTERVAL = TableProperty(
    setting_definitions.MAJOR_INTERVAL.name,
    "duration",
    "the setting",
    "A major compaction is due when the base is older than this and there are deltas. Also a property of a database.",
    "hiveacid",
)
COMPACTION_WINDOW = TableProperty(
    setting_definitions.COMPACTION_WINDOW.name,
    setting_definitions.QUIET_HOURS,
    "the setting",
    "When major compactions that the initiator requests may start (`22:00-06:00`). Also a property of a database.",
    "hiveacid",
)
HISTORY_RETENTION = TableProperty(
    "hiveacid.history.retention",
    "duration",
    "0",
    "How long the cleaner keeps directories that a compaction or an overwrite replaced, for time travel and change feeds "
    "(`7d`, or a number of seconds).",
    "hiveacid",
)

# --- text files ---------------------------------------------------------------------------------
FIELD_DELIMITER = TableProperty(
    storage_formats.FIELD_DELIMITER, "byte", r"\001", "Separates fields (FIELDS TERMINATED BY)."
)
SERIALIZATION_FORMAT = TableProperty(
    storage_formats.SERIALIZATION_FORMAT, "byte", r"\001", "Separates fields where field.delim is missing."
)
ESCAPE_DELIMITER = TableProperty(
    storage_formats.ESCAPE_DELIMITER, "byte", "absent", "Escapes delimiters in values (ESCAPED BY)."
)
COLLECTION_DELIMITER = TableProperty(
    storage_formats.COLLECTION_DELIMITER,
    "byte",
    r"\002",
    "Separates elements of an array and fields of a struct (COLLECTION ITEMS TERMINATED BY).",
)
COLLECTION_DELIMITER_HIVE2 = TableProperty(
    "colelction.delim", "byte", r"\002", "The same property in Hive's spelling before version 3."
)
MAP_KEY_DELIMITER = TableProperty(
    storage_formats.MAP_KEY_DELIMITER,
    "byte",
    r"\003",
    "Separates key and value of a map (MAP KEYS TERMINATED BY).",
)
LINE_DELIMITER = TableProperty(
    storage_formats.LINE_DELIMITER, "byte", r"\n", r"Separates lines. Other values than \n are refused."
)
NULL_FORMAT = TableProperty(storage_formats.NULL_FORMAT, "text", r"\N", "Text of NULL (NULL DEFINED AS).")
LAST_COLUMN_TAKES_REST = TableProperty(
    "serialization.last.column.takes.rest",
    "bool",
    "false",
    "true: further delimiters of a line belong to its last column.",
)
NESTING_LEVELS = TableProperty(
    "hive.serialization.extend.nesting.levels",
    "bool",
    "false",
    "true: 24 separators for nested types instead of 8.",
)
MORE_NESTING_LEVELS = TableProperty(
    "hive.serialization.extend.additional.nesting.levels",
    "bool",
    "false",
    "true: all separators that Hive knows for nested types.",
)
ENCODING = TableProperty(
    "serialization.encoding", "text", "utf-8", "Encoding of the files. Only UTF-8 is accepted."
)
TIMESTAMP_FORMATS = TableProperty(
    "timestamp.formats", "text", "absent", "Formats of timestamps. A table with this property is refused."
)
RECORD_DELIMITER = TableProperty(
    "textinputformat.record.delimiter",
    "text",
    "absent",
    "Separator of lines. A table with this property is refused.",
    "Hadoop",
)
SKIP_HEADER_LINES = TableProperty(
    "skip.header.line.count", "int", "0", "Number of header lines to skip in each file. Only 0 is accepted."
)
SKIP_FOOTER_LINES = TableProperty(
    "skip.footer.line.count", "int", "0", "Number of footer lines to skip in each file. Only 0 is accepted."
)

# --- kept by hiveacid and other engines ---------------------------------------------------------
ADOPTED_TXN = TableProperty(
    "hiveacid.adopted.txn",
    "int",
    "absent",
    "Highest transaction id in the directory names of a table when it was adopted or migrated.",
    "hiveacid",
)
ADOPTED_INVALID = TableProperty(
    "hiveacid.adopted.invalid.txns",
    "list of int",
    "absent",
    "Transaction ids up to hiveacid.adopted.txn whose directories are ignored, because they did not commit.",
    "hiveacid",
)
HISTORY_FROM = TableProperty(
    "hiveacid.history.from",
    "int",
    "0",
    "Write id before which snapshots are no longer complete, because the cleaner removed their files.",
    "hiveacid",
)
PARTITIONS_DROPPED = TableProperty(
    "hiveacid.partitions.dropped",
    "int",
    "absent",
    "Write id of the last DROP PARTITION, PARTITION RENAME or MSCK that took in files. A snapshot from before it cannot be read any more.",
    "hiveacid",
)
TAGS = TableProperty(
    "hiveacid.tags",
    "text",
    "absent",
    "Tags of ALTER TABLE CREATE TAG: the write ids of each, and until when (ms) its state is kept.",
    "hiveacid",
)
CONVERSION = TableProperty(
    "hiveacid.conversion",
    "int",
    "absent",
    "Write id of the delta directory into which the files of a plain table move. Readers of the plain table ignore that "
    "directory; readers of the transactional one ignore files that are still outside it.",
    "hiveacid",
)
MIGRATION = TableProperty(
    "hiveacid.migration",
    "text",
    "absent",
    "`to` or `from` and the other store of a table that `hiveacid migrate` is moving. The table cannot be used until the move has ended.",
    "hiveacid",
)
MIGRATED_FROM = TableProperty(
    "hiveacid.migrated.from",
    "text",
    "absent",
    "Ids that the table had in other stores before `hiveacid migrate` moved it. Streaming queries know it by them.",
    "hiveacid",
)
LAST_DDL_TIME = TableProperty(
    "transient_lastDdlTime", "int", "set", "Time of the last CREATE or ALTER, in seconds since 1970."
)
SPARK_PROVIDER = TableProperty(
    "spark.sql.sources.provider",
    "text",
    "absent",
    "Marks a table that Spark put into a Hive Metastore and that only Spark reads.",
    "Spark",
)

KIND_PROPERTIES = (TRANSACTIONAL.name, TRANSACTIONAL_PROPERTIES.name)
"""Properties that decide the kind of a table."""
RESERVED_PROPERTIES = frozenset(
    {
        entry.name
        for entry in (
            ADOPTED_TXN,
            ADOPTED_INVALID,
            HISTORY_FROM,
            PARTITIONS_DROPPED,
            TAGS,
            CONVERSION,
            MIGRATION,
            MIGRATED_FROM,
        )
    }
)
"""Names of the properties that users cannot set."""

SECTIONS: tuple[Section[TableProperty], ...] = divide_into_sections(
    tuple(globals().values()),
    (
        ("Kind of the table", TRANSACTIONAL),
        ("Files", LAYOUT_LEVEL),
        ("Compaction, cleaning and history", NO_AUTO_COMPACTION),
        ("Text files (also as SERDEPROPERTIES)", FIELD_DELIMITER),
        ("Kept by hiveacid and other engines", ADOPTED_TXN),
    ),
)
TABLE_PROPERTIES: Mapping[str, TableProperty] = MappingProxyType(
    {entry.name: entry for section in SECTIONS for entry in section.entries}
)


PREFIXES = tuple(setting.name.removesuffix("NAME") for setting in (COMPACTOR_THRESHOLD, COMPACTOR))
_WITHOUT_PREFIX = (WORKER_POOL.name, PRIORITY.name, MAJOR_INTERVAL.name, COMPACTION_WINDOW.name)


def compactor_settings(settings: Settings, *properties: Iterable[tuple[str, str]]) -> Settings:
    """Return settings with the overrides for compaction in properties; later properties win over earlier ones.

    ``compactorthreshold.NAME`` (Hive's key for the initiator) and ``compactor.NAME`` (Hive's key for a job) override
    the setting NAME. Pool and priority need no prefix. Case does not matter; a NAME that is not a setting is ignored,
    as in Hive. Raises ConfigError for a value that does not fit the setting.
    """
    for pairs in properties:
        for key, text in pairs:
            name = _overridden_setting_name(key)
            if name is not None and text:
                settings = settings.with_value(name, text)
    return settings


def _overridden_setting_name(key: str) -> str | None:
    lowered = key.strip().lower()
    if lowered in _WITHOUT_PREFIX:
        return lowered
    for prefix in PREFIXES:
        name = lowered.removeprefix(prefix)
        if name != lowered:
            return name if name in REGISTRY else None
    return None
