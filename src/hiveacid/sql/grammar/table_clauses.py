"""Clauses of CREATE TABLE: ROW FORMAT, STORED AS and Spark's USING; and constraints.

A constraint that no engine enforces has no effect on the data and is ignored. Hive enforces NOT NULL, DEFAULT and CHECK on
every write, unless DISABLE follows. They are refused, because hiveacid would write rows that violate them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from hiveacid.core.model import StorageFormat
from hiveacid.core.schema.storage_formats import TEXTFILE, Delimiters, storage_format
from hiveacid.spark.parser.lexer import Token
from hiveacid.sql.grammar.cursor import Cursor
from hiveacid.sql.statements import Properties

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
        if cursor.expect_one("SERDE", "DELIMITED") == "SERDE":
            clauses.serde = cursor.string("a SerDe class in quotes")
            if cursor.take("WITH", "SERDEPROPERTIES"):
                clauses.serde_properties = cursor.properties()
        else:
            clauses.delimited = True
            clauses.serde_properties = _delimiters(cursor).serde_properties()
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
        cursor.refuse(
            "tables with a storage handler (STORED BY) are not supported: write STORED AS, or read the other system by spark.read"
        )
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


_ENDS = frozenset(
    {",", "COMMENT", "CONSTRAINT", "NOT", "ENABLE", "ENABLED", "DISABLE", "DISABLED", "ENFORCED", "VALIDATE"}
    | {"NOVALIDATE", "RELY", "NORELY", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES"}
)


Enforced: TypeAlias = list[tuple[str, Token]]
"""Enforced constraints of a table: their kinds and positions."""


def take_column_constraint(cursor: Cursor, enforced: Enforced) -> bool:
    """Take one constraint behind a column's type; False if none comes next."""
    token = cursor.next
    if cursor.take("CONSTRAINT"):
        cursor.name("the constraint's name")
    if cursor.take("NOT", "NULL"):
        kind = "NOT NULL"
    elif cursor.take("DEFAULT"):
        kind = "DEFAULT"
        cursor.until(_ENDS, "a default value")
    elif cursor.take("CHECK"):
        kind = "CHECK"
        _parenthesised(cursor)
    elif cursor.take("PRIMARY", "KEY") or cursor.take("UNIQUE"):
        kind = ""
    elif cursor.take("REFERENCES"):
        kind = ""
        cursor.table()
        cursor.names("a column name")
    elif cursor.next is token:
        return False
    else:
        cursor.fail("a constraint")
    _options(cursor, enforced, kind, token)
    return True


def take_table_constraint(cursor: Cursor, enforced: Enforced) -> bool:
    """Take one constraint among the columns; False if a column comes next."""
    token = cursor.next
    offset = 2 if cursor.sees("CONSTRAINT") else 0
    word, behind = cursor.ahead(offset).keyword, cursor.ahead(offset + 1).keyword
    if (word, behind) not in {("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("UNIQUE", "("), ("CHECK", "(")}:
        return False
    for _ in range(offset + 1):
        cursor.advance()
    if cursor.take("KEY") or word == "UNIQUE":
        cursor.names("a column name")
    else:
        _parenthesised(cursor)
    if cursor.take("REFERENCES"):
        cursor.table()
        cursor.names("a column name")
    _options(cursor, enforced, "CHECK" if word == "CHECK" else "", token)
    return True


def _parenthesised(cursor: Cursor) -> None:
    if not cursor.sees("("):
        cursor.fail("'('")
    cursor.skip_parentheses()


def _options(cursor: Cursor, enforced: Enforced, kind: str, token: Token) -> None:
    """Take ENABLE, DISABLE and similar options; record the constraint if it is enforced.

    Keys are informational unless ENABLE is written; NOT NULL, DEFAULT and CHECK are enforced unless DISABLE is.
    """
    disabled = enabled = False
    while True:
        if cursor.take_one("DISABLE", "DISABLED") or cursor.take("NOT", "ENFORCED"):
            disabled = True
        elif cursor.take_one("ENABLE", "ENABLED", "ENFORCED"):
            enabled = True
        elif not cursor.take_one("VALIDATE", "NOVALIDATE", "RELY", "NORELY"):
            break
    if enabled or (kind and not disabled):
        enforced.append((kind or "an enforced key", token))
