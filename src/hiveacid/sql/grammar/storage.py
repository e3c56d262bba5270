"""ROW FORMAT, STORED AS and Spark's USING: the clauses for a table's SerDe and formats."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hiveacid.core.model import StorageFormat
from hiveacid.core.schema.storage_formats import TEXTFILE, Delimiters, storage_format
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.statements.values import Properties

# Hive's metastore replaces the first class by the second (HiveFileFormatUtils.getOutputFormatSubstitute).
_SUBSTITUTES = {
    "org.apache.hadoop.mapred.TextOutputFormat": TEXTFILE.output_format,
    "org.apache.hadoop.hive.ql.io.IgnoreKeyTextOutputFormat": TEXTFILE.output_format,
}
_SOURCES = frozenset({"orc", "parquet", "avro"})  # formats whose files are the same in Spark and Hive


@dataclass
class StorageClauses:
    """The storage clauses parsed so far."""

    formats: StorageFormat | None = None
    serde: str | None = None
    serde_properties: Properties = ()
    delimited: bool = False
    has_spark_provider: bool = False  # the format was named by Spark's USING

    def resolve(self) -> StorageFormat | None:
        """Return the storage format, None without any clause. A SerDe without a format reads text files, as in Hive."""
        if self.formats is None and self.serde is None and not self.delimited:
            return None
        formats = self.formats or TEXTFILE
        return replace(formats, serde=self.serde or formats.serde, serde_properties=self.serde_properties)


def take_storage_clause(cursor: Cursor, clauses: StorageClauses) -> str:
    """Take one of the clauses if it comes next; return its name or ''."""
    if cursor.take("ROW"):
        cursor.expect("FORMAT")
        _row_format(cursor, clauses)
        return "ROW FORMAT"
    if cursor.take("STORED"):
        _stored(cursor, clauses)
        return "STORED AS"
    if cursor.take("USING"):
        token, name = cursor.next, cursor.name("a format")
        if name not in _SOURCES:
            cursor.refuse(
                f"USING {name} is not supported: use STORED AS orc, parquet, textfile or avro", token
            )
        clauses.formats, clauses.has_spark_provider = storage_format(name), True
        return "STORED AS"
    return ""


def _row_format(cursor: Cursor, clauses: StorageClauses) -> None:
    if cursor.expect_one("SERDE", "DELIMITED") == "SERDE":
        clauses.serde = cursor.string("a SerDe class in quotes")
        if cursor.take("WITH", "SERDEPROPERTIES"):
            clauses.serde_properties = cursor.properties()
    else:
        clauses.delimited = True
        clauses.serde_properties = _delimiters(cursor).serde_properties()


def _delimiters(cursor: Cursor) -> Delimiters:
    delimiters = Delimiters()
    while True:
        if cursor.take("FIELDS"):
            delimiters = replace(delimiters, fields=_terminator(cursor))
            if cursor.take("ESCAPED", "BY"):
                delimiters = replace(delimiters, escape=cursor.string("a character in quotes"))
        elif cursor.take("COLLECTION", "ITEMS"):
            delimiters = replace(delimiters, items=_terminator(cursor))
        elif cursor.take("MAP", "KEYS"):
            delimiters = replace(delimiters, map_keys=_terminator(cursor))
        elif cursor.take("LINES"):
            token = cursor.ahead(2)
            delimiters = replace(delimiters, lines=_terminator(cursor))
            if delimiters.lines not in {"\n", "10"}:
                cursor.refuse("LINES TERMINATED BY only takes '\\n', as in Hive", token)
        elif cursor.take("NULL", "DEFINED", "AS"):
            delimiters = replace(delimiters, null=cursor.string("a text in quotes"))
        else:
            return delimiters


def _terminator(cursor: Cursor) -> str:
    cursor.expect("TERMINATED", "BY")
    return cursor.string("a character in quotes")


def _stored(cursor: Cursor, clauses: StorageClauses) -> None:
    if cursor.sees("BY"):
        cursor.refuse("tables with a storage handler (STORED BY) are not supported")
    cursor.expect("AS")
    if cursor.sees("DIRECTORIES"):
        cursor.refuse("skewed tables stored as directories are not supported")
    if cursor.take("INPUTFORMAT"):
        input_format = cursor.string("an input format class in quotes")
        cursor.expect("OUTPUTFORMAT")
        output_format = cursor.string("an output format class in quotes")
        output_format = _SUBSTITUTES.get(output_format, output_format)
        clauses.formats = StorageFormat(TEXTFILE.serde, input_format, output_format)
        return
    token, name = cursor.next, cursor.name("a file format")
    clauses.formats = storage_format(name)
    if clauses.formats is None:
        cursor.refuse(f"unknown file format {name}: use orc, parquet, textfile or avro", token)
