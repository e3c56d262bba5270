"""Clauses of CREATE TABLE: ROW FORMAT, STORED AS and Spark's USING; and constraints.

NOT NULL, DEFAULT and CHECK apply to every write, unless DISABLE follows. Keys only inform, as in Hive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hiveacid.core.model import Constraint, ConstraintKind, StorageFormat, TableName
from hiveacid.core.schema.constraints import KEYS
from hiveacid.core.schema.storage_formats import TEXTFILE, Delimiters, storage_format
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


def take_column_constraint(cursor: Cursor, column: str) -> Constraint | None:
    """Take one constraint behind a column's type, if one comes next."""
    token, name = cursor.next, _constraint_name(cursor)
    constraint: Constraint | None = None
    if cursor.take("NOT", "NULL"):
        constraint = Constraint(ConstraintKind.NOT_NULL, name, column)
    elif cursor.take("DEFAULT"):
        constraint = Constraint(
            ConstraintKind.DEFAULT, name, column, cursor.until(_ENDS, "a default value").text
        )
    elif cursor.take("CHECK"):
        constraint = Constraint(ConstraintKind.CHECK, name, column, _parenthesised(cursor))
    elif cursor.take("PRIMARY", "KEY"):
        constraint = Constraint(ConstraintKind.PRIMARY_KEY, name, key=(column,))
    elif cursor.take("UNIQUE"):
        constraint = Constraint(ConstraintKind.UNIQUE, name, key=(column,))
    elif cursor.sees("REFERENCES"):
        constraint = _with_parent(cursor, Constraint(ConstraintKind.FOREIGN_KEY, name, key=(column,)))
    elif cursor.next is not token:
        cursor.fail("a constraint")
    return None if constraint is None else _with_options(cursor, constraint)


def take_table_constraint(cursor: Cursor) -> Constraint | None:
    """Take one constraint among the columns; None if a column comes next."""
    offset = 2 if cursor.sees("CONSTRAINT") else 0
    word, behind = cursor.ahead(offset).keyword, cursor.ahead(offset + 1).keyword
    if (word, behind) not in {("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("UNIQUE", "("), ("CHECK", "(")}:
        return None
    name = _constraint_name(cursor)
    cursor.advance()
    if word == "CHECK":
        constraint = Constraint(ConstraintKind.CHECK, name, None, _parenthesised(cursor))
    else:
        kind = ConstraintKind(f"{word} KEY" if cursor.take("KEY") else word)
        constraint = Constraint(kind, name, key=cursor.names("a column name"))
    if constraint.kind is ConstraintKind.FOREIGN_KEY:
        constraint = _with_parent(cursor, constraint)
    return _with_options(cursor, constraint)


def _constraint_name(cursor: Cursor) -> str:
    return cursor.name("the constraint's name") if cursor.take("CONSTRAINT") else ""


def _with_parent(cursor: Cursor, constraint: Constraint) -> Constraint:
    cursor.expect("REFERENCES")
    parent = cursor.table()
    # the current database is known when the statement runs
    name = TableName(parent.database or "", parent.name)
    return replace(constraint, parent=name, parent_key=cursor.names("a column name"))


def _parenthesised(cursor: Cursor) -> str:
    cursor.expect("(")
    text = cursor.until(frozenset({","}), "a condition").text
    cursor.expect(")")
    return text


def _with_options(cursor: Cursor, constraint: Constraint) -> Constraint:
    """Take ENABLE, DISABLE and similar options.

    Keys are disabled unless ENABLE is written, which is refused; NOT NULL, DEFAULT and CHECK are enabled unless DISABLE is.
    """
    is_key, token = constraint.kind in KEYS, cursor.next
    enabled, rely = not is_key, None
    while True:
        if cursor.take_one("DISABLE", "DISABLED") or cursor.take("NOT", "ENFORCED"):
            enabled = False
        elif cursor.take_one("ENABLE", "ENABLED", "ENFORCED"):
            enabled = True
        elif cursor.sees("VALIDATE"):
            cursor.refuse(
                "rows that exist are not compared with a constraint: write NOVALIDATE, and query them"
            )
        elif word := cursor.take_one("RELY", "NORELY"):
            rely = word == "RELY"
        elif not cursor.take("NOVALIDATE"):
            break
    if enabled and is_key:
        cursor.refuse(f"a {constraint.kind} only informs, as in Hive: write DISABLE NOVALIDATE", token)
    return replace(constraint, enabled=enabled, rely=enabled if rely is None else rely)
