from __future__ import annotations

import pytest

from hiveacid.core.model import Column, ConstraintKind
from hiveacid.core.schema.evolution import FIRST, ColumnChange
from hiveacid.errors import ParseError
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Literal, PartitionItem, Slice, Statement, TableRef
from hiveacid.sql.statements.administration import Compact
from hiveacid.sql.statements.definitions import (
    AddColumns,
    AddedPartition,
    AddPartitions,
    AlterDatabase,
    ChangeColumn,
    CreateDatabase,
    DropColumnConstraint,
    DropColumns,
    DropDatabase,
    DropPartitions,
    DropTable,
    DropView,
    RenamePartition,
    RenameTable,
    ReplaceColumns,
    SetTableOwner,
    SetTableProperties,
    TruncateTable,
    UnsetTableProperties,
)

T = TableRef(None, "t")
DT = TableRef("d", "t")


def item(
    column: str, written: str, value: str | None, kind: str = "string", operator: str = "="
) -> PartitionItem:
    return PartitionItem(column, Slice(written), Literal(value, kind), operator)


P = item("p", "'x'", "x")


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE DATABASE d", CreateDatabase("d")),
        (
            "CREATE SCHEMA IF NOT EXISTS D COMMENT 'c' LOCATION '/x' WITH DBPROPERTIES ('b'='2','a'='1')",
            CreateDatabase(
                "d", if_not_exists=True, comment="c", location="/x", properties=(("a", "1"), ("b", "2"))
            ),
        ),
        ("DROP DATABASE d", DropDatabase("d")),
        ("DROP SCHEMA IF EXISTS d RESTRICT", DropDatabase("d", if_exists=True)),
        ("DROP DATABASE IF EXISTS `d d` CASCADE", DropDatabase("d d", if_exists=True, cascade=True)),
        ("DROP NAMESPACE spark_catalog.`d d` CASCADE", DropDatabase("d d", cascade=True)),
        (
            "ALTER SCHEMA D SET DBPROPERTIES ('b'='2','a'='1')",
            AlterDatabase("d", properties=(("a", "1"), ("b", "2"))),
        ),
        ("ALTER DATABASE spark_catalog.d SET OWNER USER `An n`", AlterDatabase("d", owner="An n")),
        ("ALTER NAMESPACE d SET LOCATION '/x'", AlterDatabase("d", location="/x")),
        ("COMMENT ON DATABASE d IS 'it''s'", AlterDatabase("d", comment="it's")),
        ("COMMENT ON SCHEMA d IS NULL", AlterDatabase("d", comment="")),
        ("ALTER TABLE d.t SET OWNER USER 'ann'", SetTableOwner(DT, "ann")),
        ("DROP TABLE t", DropTable(T)),
        ("DROP TABLE IF EXISTS d.t PURGE", DropTable(DT, if_exists=True, purge=True)),
        ("DROP VIEW IF EXISTS t", DropView(T, if_exists=True)),
        ("TRUNCATE TABLE d.t", TruncateTable(DT)),
        ("TRUNCATE t PARTITION (p='x')", TruncateTable(T, (P,))),
        ("TRUNCATE TABLE t FORCE", TruncateTable(T)),
        (
            "ALTER TABLE t ADD COLUMNS (a int COMMENT 'x', `b c` struct<x:int>)",
            AddColumns(T, (Column("a", "int", "x"), Column("b c", "struct<x:int>"))),
        ),
        ("ALTER TABLE t ADD COLUMNS (a int) CASCADE", AddColumns(T, (Column("a", "int"),))),
        ("ALTER TABLE t ADD COLUMN a int", AddColumns(T, (Column("a", "int"),))),
        ("ALTER TABLE t CHANGE COLUMN A `B` int", ChangeColumn(T, ColumnChange("a", "b", "int"))),
        (
            "ALTER TABLE d.t CHANGE a a decimal(12, 2) COMMENT 'x' AFTER c CASCADE",
            ChangeColumn(DT, ColumnChange("a", "a", "decimal(12,2)", "x", "c")),
        ),
        (
            "ALTER TABLE t CHANGE a `type` string FIRST",
            ChangeColumn(T, ColumnChange("a", "type", "string", after=FIRST)),
        ),
        ("ALTER TABLE t CHANGE a comment string", ChangeColumn(T, ColumnChange("a", "comment", "string"))),
        ("ALTER TABLE t CHANGE COLUMN a COMMENT ''", ChangeColumn(T, ColumnChange("a", comment=""))),
        (
            "ALTER TABLE t ALTER COLUMN a DROP NOT NULL",
            DropColumnConstraint(T, "a", ConstraintKind.NOT_NULL),
        ),
        ("ALTER TABLE t ALTER a DROP DEFAULT", DropColumnConstraint(T, "a", ConstraintKind.DEFAULT)),
        ("ALTER TABLE t ALTER COLUMN a TYPE bigint", ChangeColumn(T, ColumnChange("a", type="bigint"))),
        (
            "ALTER TABLE t ALTER a COMMENT 'x' AFTER `b c`",
            ChangeColumn(T, ColumnChange("a", comment="x", after="b c")),
        ),
        ("ALTER TABLE t ALTER COLUMN a FIRST", ChangeColumn(T, ColumnChange("a", after=FIRST))),
        ("ALTER TABLE t RENAME COLUMN a TO b", ChangeColumn(T, ColumnChange("a", name="b"))),
        (
            "ALTER TABLE t REPLACE COLUMNS (a int, b string COMMENT 'x') CASCADE",
            ReplaceColumns(T, (Column("a", "int"), Column("b", "string", "x"))),
        ),
        ("ALTER TABLE t DROP COLUMN a", DropColumns(T, ("a",))),
        ("ALTER TABLE t DROP COLUMNS IF EXISTS (a, B)", DropColumns(T, ("a", "b"), if_exists=True)),
        ("ALTER TABLE t DROP COLUMN a, b", DropColumns(T, ("a", "b"))),
        ("COMMENT ON TABLE d.t IS 'it' 's'", SetTableProperties(DT, (("comment", "its"),))),
        ("COMMENT ON TABLE t IS NULL", SetTableProperties(T, (("comment", ""),))),
        ("COMMENT ON COLUMN t.`A` IS 'x'", ChangeColumn(T, ColumnChange("a", comment="x"))),
        ("COMMENT ON COLUMN spark_catalog.d.t.a IS NULL", ChangeColumn(DT, ColumnChange("a", comment=""))),
        ("ALTER TABLE t SET TBLPROPERTIES ('a'='b')", SetTableProperties(T, (("a", "b"),))),
        ("ALTER TABLE t UNSET TBLPROPERTIES ('a', 'b')", UnsetTableProperties(T, ("a", "b"))),
        (
            "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a')",
            UnsetTableProperties(T, ("a",), if_exists=True),
        ),
        ("ALTER TABLE d.t RENAME TO u", RenameTable(DT, TableRef(None, "u"))),
        (
            "ALTER TABLE d.t PARTITION (p='x') RENAME TO PARTITION (P='y', q='x')",
            RenamePartition(DT, (P,), (item("p", "'y'", "y"), item("q", "'x'", "x"))),
        ),
        (
            "ALTER TABLE t ADD IF NOT EXISTS PARTITION (p='x') LOCATION '/y' PARTITION (p='z')",
            AddPartitions(
                T, (AddedPartition((P,), "/y"), AddedPartition((item("p", "'z'", "z"),))), if_not_exists=True
            ),
        ),
        ("ALTER TABLE t DROP PARTITION (p='x')", DropPartitions(T, ((P,),))),
        (
            "ALTER TABLE t DROP IF EXISTS PARTITION (p>='x', p < 'z'), PARTITION (q!=1) PURGE",
            DropPartitions(
                T,
                (
                    (item("p", "'x'", "x", operator=">="), item("p", "'z'", "z", operator="<")),
                    (item("q", "1", "1", "number", "<>"),),
                ),
                if_exists=True,
                purge=True,
            ),
        ),
        ("ALTER TABLE t COMPACT 'MAJOR'", Compact(T, "major")),
        ("ALTER TABLE t PARTITION (p='x') COMPACT 'minor' AND WAIT", Compact(T, "minor", (P,), wait=True)),
        (
            (
                "ALTER TABLE t COMPACT 'rebalance' CLUSTERED INTO 4 BUCKETS ORDER BY a DESC, /* second */ `B` NULLS LAST AND WAIT POOL 'p'"
                " WITH OVERWRITE TBLPROPERTIES ('compactor.x'='1')"
            ),
            Compact(
                T,
                "rebalance",
                wait=True,
                buckets=4,
                order_by="`a` DESC NULLS LAST, `b` ASC NULLS LAST",
                pool="p",
                properties=(("compactor.x", "1"),),
            ),
        ),
        (
            "ALTER TABLE t COMPACT 'major' POOL 'p' AND WAIT ORDER BY a",
            Compact(T, "major", wait=True, pool="p", order_by="`a` ASC NULLS FIRST"),
        ),
    ],
)
def test_statements(text: str, statement: Statement) -> None:
    assert parse(text) == statement
    assert parse(f"-- first\n{text} ;") == statement


def test_keywords_in_any_case() -> None:
    assert parse("alter Table T add If not Exists partition (P='x')") == AddPartitions(
        T, (AddedPartition((P,)),), if_not_exists=True
    )


@pytest.mark.parametrize(
    ("written", "literal"),
    [
        ("'its'", Literal("its", "string")),
        ("''", Literal("", "string")),
        ("'it\\'s'", None),
        ("'it''s'", None),
        ("'a' 'it\\'s'", None),
        ("\"a\" 'b'", Literal("ab", "string")),
        ("10", Literal("10", "number")),
        ("-10L", Literal("-10", "number")),
        ("+2.50BD", Literal("2.50", "number")),
        ("TRUE", Literal("true", "boolean")),
        ("NULL", Literal(None, "null")),
        ("date '2020-01-01'", Literal("2020-01-01", "date")),
        ("TIMESTAMP '2020-01-01 00:00:00'", Literal("2020-01-01 00:00:00", "timestamp")),
        ("concat('a', 'b')", None),
        ("1 + 1", None),
        ("current_date", None),
        ("(1)", None),
        ("date", None),
    ],
)
def test_partition_values_are_kept_as_written_and_read(written: str, literal: Literal | None) -> None:
    found = parse(f"TRUNCATE TABLE t PARTITION (a='b', p = {written} )")
    assert isinstance(found, TruncateTable)
    value = found.partition[1]
    assert value.expression == Slice(written)
    assert value.expression.column == 40
    assert value.literal == literal


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("DROP", "", "TABLE or VIEW"),
        ("DROP TABLE", "", "a table name"),
        ("DROP TABLE a.b.c", "a.b", "two parts"),
        ("DROP TABLE t CASCADE", "CASCADE", "the end of the statement"),
        ("DROP DATABASE a.b", ".b", "the end"),
        ("CREATE DATABASE d COMMENT", "", "a comment"),
        ("CREATE DATABASE d ANYLOCATION 'x'", "ANY", "LOCATION"),
        ("ALTER THING i", "THING", "TABLE or VIEW or DATABASE"),
        ("ALTER TABLE t", "", "COMPACT or PARTITION"),
        ("ALTER TABLE t STORE", "STORE", "ADD, DROP"),
        ("ALTER TABLE t ADD", "", "COLUMNS, CONSTRAINT or PARTITION"),
        ("ALTER TABLE t ADD COLUMNS (a int, a int)", "a int)", "is given twice"),
        ("ALTER TABLE t ADD PARTITION (p)", ")", "'='"),
        ("ALTER TABLE t ADD PARTITION (p<'x')", "<", "'='"),
        ("ALTER TABLE t ADD PARTITION (p='x', p='y')", "p='y'", "is given twice"),
        ("ALTER TABLE t ADD PARTITION ()", ")", "a partition column"),
        ("ALTER TABLE t ADD PARTITION (p=)", ")", "a value"),
        ("ALTER TABLE t DROP a", "a", "PARTITION"),
        ("ALTER TABLE t DROP COLUMNS (a, a)", "a)", "is given twice"),
        ("ALTER TABLE t RENAME a TO b", "a TO", "TO or COLUMN"),
        ("ALTER TABLE t RENAME COLUMN s.x TO y", "s.x", "fields of a struct"),
        ("ALTER TABLE t REPLACE COLUMNS (a int, a int)", "a int)", "is given twice"),
        ("ALTER TABLE t CHANGE a TYPE int", "TYPE", "ALTER COLUMN c TYPE"),
        ("ALTER TABLE t CHANGE a b", "", "a type"),
        ("ALTER TABLE t CHANGE a b int FIRST AFTER c", "AFTER", "the end"),
        ("ALTER TABLE t ALTER COLUMN a", "", "TYPE, COMMENT, FIRST or AFTER"),
        ("ALTER TABLE t DROP PARTITION (p LIKE 'x')", "LIKE", "a comparison"),
        ("ALTER TABLE t PARTITION (p='x') RENAME TO u", "u", "PARTITION"),
        ("ALTER TABLE t PARTITION (p='x') SET THING", "SET", "COMPACT, CONCATENATE or RENAME"),
        ("ALTER TABLE t SET THING", "THING", "TBLPROPERTIES"),
        ("ALTER TABLE t UNSET TBLPROPERTIES ('a'='b')", "='b'", "',' or"),
        ("ALTER TABLE t COMPACT", "", "'minor', 'major'"),
        ("ALTER TABLE t COMPACT 'huge'", "'huge'", "unknown compaction 'huge'"),
        ("ALTER TABLE t COMPACT 'major' NOW", "NOW", "AND WAIT"),
        ("ALTER TABLE t COMPACT 'major' AND WAIT AND WAIT", "AND WAIT", "AND is given twice"),
        ("ALTER TABLE t COMPACT 'major' CLUSTERED INTO 0 BUCKETS", "0", "at least one"),
        ("TRUNCATE TABLE t PARTITION (p)", ")", "'='"),
        ("COMMENT ON COLUMN a IS 'x'", "a IS", "behind it the column"),
        ("COMMENT ON TABLE a.b.c IS 'x'", "a.b", "write table or database.table"),
        ("COMMENT ON VIEW v IS 'x'", "VIEW", "TABLE or COLUMN"),
        ("COMMENT ON TABLE t", "", "IS"),
    ],
)
def test_refused_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        parse(text)
    at = text.rindex(place) if place else len(text)
    assert (caught.value.line, caught.value.column) == (1, at + 1)
