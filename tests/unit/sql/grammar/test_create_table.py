from __future__ import annotations

import pytest

from hiveacid.core.model import (
    Bucketing,
    Column,
    Constraint,
    ConstraintKind,
    StorageFormat,
    TableKind,
    TableName,
)
from hiveacid.core.schema.storage_formats import (
    AVRO,
    JSONFILE,
    ORC,
    PARQUET,
    TEXTFILE,
    FileKind,
    file_kind,
    storage_format,
)
from hiveacid.errors import ParseError
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Slice, TableRef
from hiveacid.sql.statements.definitions import CreateTable, CreateTableLike, CreateTemporaryView


def create(text: str) -> CreateTable:
    found = parse(text)
    assert isinstance(found, CreateTable)
    return found


def test_all_clauses_of_hive() -> None:
    found = create(
        """CREATE TABLE IF NOT EXISTS Db.Sales (id INT COMMENT 'key', Item VARCHAR(10), m MAP<STRING,ARRAY<INT>>)
        COMMENT 'it\\'s' PARTITIONED BY (dt DATE COMMENT 'day', hr INT)
        CLUSTERED BY (id, item) SORTED BY (id DESC, item) INTO 4 BUCKETS
        STORED AS ORC LOCATION 'wh/sales' TBLPROPERTIES ('transactional'='true', "a"='b', 'n'=1)"""
    )
    assert found == CreateTable(
        table=TableRef("db", "sales"),
        columns=(
            Column("id", "int", "key"),
            Column("item", "varchar(10)"),
            Column("m", "map<string,array<int>>"),
        ),
        partition_columns=(Column("dt", "date", "day"), Column("hr", "int")),
        bucketing=Bucketing(("id", "item"), 4, ("id", "item"), ("id",)),
        storage=ORC,
        location="wh/sales",
        comment="it's",
        properties=(("a", "b"), ("n", "1"), ("transactional", "true")),
        if_not_exists=True,
    )


def test_the_definition_has_the_defaults_that_it_is_given() -> None:
    table = create("CREATE TABLE t (a int) TBLPROPERTIES ('transactional'='true')").definition(
        TableName("d", "t"), location="/wh/t", storage=ORC, owner="me", created_at=5
    )
    assert (table.location, table.storage, table.owner, table.created_at) == ("/wh/t", ORC, "me", 5)
    assert table.kind is TableKind.FULL_ACID
    own = create("CREATE EXTERNAL TABLE t (a int) STORED AS parquet LOCATION '/x'").definition(
        TableName("d", "t"), location="/wh/t", storage=ORC
    )
    assert (own.location, own.storage, own.external) == ("/x", PARQUET, True)


@pytest.mark.parametrize(
    ("clauses", "storage"),
    [
        ("", None),
        ("STORED AS orc", ORC),
        ("STORED AS ORCFILE", ORC),
        ("STORED AS Parquet", PARQUET),
        ("STORED AS TEXTFILE", TEXTFILE),
        ("STORED AS AVRO", AVRO),
        ("STORED AS jsonfile", JSONFILE),
        ("USING orc", ORC),
        ("USING parquet", PARQUET),
        ("ROW FORMAT DELIMITED", TEXTFILE),
        (
            (
                "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\\\' COLLECTION ITEMS TERMINATED BY '\\002'"
                " MAP KEYS TERMINATED BY ':' LINES TERMINATED BY '\\n' NULL DEFINED AS 'NULL' STORED AS TEXTFILE"
            ),
            StorageFormat(
                TEXTFILE.serde,
                TEXTFILE.input_format,
                TEXTFILE.output_format,
                (
                    ("collection.delim", "\x02"),
                    ("escape.delim", "\\"),
                    ("field.delim", ","),
                    ("line.delim", "\n"),
                    ("mapkey.delim", ":"),
                    ("serialization.format", ","),
                    ("serialization.null.format", "NULL"),
                ),
            ),
        ),
        (
            "STORED AS ORC ROW FORMAT DELIMITED FIELDS TERMINATED BY ','",
            StorageFormat(
                ORC.serde,
                ORC.input_format,
                ORC.output_format,
                (("field.delim", ","), ("serialization.format", ",")),
            ),
        ),
        (
            "ROW FORMAT SERDE 'x.Y' WITH SERDEPROPERTIES ('b'='2','a'='1')",
            StorageFormat("x.Y", TEXTFILE.input_format, TEXTFILE.output_format, (("a", "1"), ("b", "2"))),
        ),
        ("STORED AS INPUTFORMAT 'in' OUTPUTFORMAT 'out'", StorageFormat(TEXTFILE.serde, "in", "out")),
        (
            (
                "ROW FORMAT SERDE 's' STORED AS INPUTFORMAT 'in'"
                " OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.IgnoreKeyTextOutputFormat'"
            ),
            StorageFormat("s", "in", TEXTFILE.output_format),
        ),
    ],
)
def test_storage(clauses: str, storage: StorageFormat | None) -> None:
    assert create(f"CREATE TABLE t (a int) {clauses}").storage == storage


def test_file_kinds_are_told_by_classes() -> None:
    assert [file_kind(each) for each in (ORC, PARQUET, TEXTFILE, AVRO)] == list(FileKind)
    assert file_kind(JSONFILE) is None
    assert storage_format("nonsense") is None


def test_transactional_and_managed() -> None:
    assert create("CREATE TRANSACTIONAL TABLE t (a int)").properties == (("transactional", "true"),)
    assert create("CREATE MANAGED TABLE t (a int)").properties == ()
    insert_only = (("transactional", "true"), ("transactional_properties", "insert_only"))
    for clauses in ("STORED AS PARQUET", "CLUSTERED BY (a) SORTED BY (a) INTO 2 BUCKETS STORED AS ORC"):
        assert create(f"CREATE TRANSACTIONAL TABLE t (a int) {clauses}").properties == insert_only
    orc = create("CREATE TRANSACTIONAL TABLE t (a int) STORED AS ORC")
    assert orc.properties == (("transactional", "true"),)
    given = create("CREATE TRANSACTIONAL TABLE t (a int) TBLPROPERTIES ('transactional'='false')")
    assert given.properties == (("transactional", "false"),)
    kind = create(
        "CREATE TRANSACTIONAL TABLE t (a int) TBLPROPERTIES ('transactional_properties'='insert_only')"
    )
    assert kind.properties == insert_only


def test_table_as_query() -> None:
    found = create(
        "CREATE TABLE t PARTITIONED BY (p) STORED AS ORC AS\n  SELECT a, 'x' AS p FROM s -- why\n;"
    )
    assert found.query == Slice("SELECT a, 'x' AS p FROM s")
    assert (found.query.line, found.query.column) == (2, 3)
    assert found.partition_columns == (Column("p", ""),)
    made = found.with_columns((Column("a", "int"), Column("p", "string")))
    assert (made.columns, made.partition_columns) == ((Column("a", "int"),), (Column("p", "string"),))
    assert create("CREATE TABLE t AS WITH q AS (SELECT 1) SELECT * FROM q").query is not None


def test_sparks_spelling_of_partitions() -> None:
    found = create("CREATE TABLE t (a int, p string) USING orc PARTITIONED BY (p)")
    assert (found.columns, found.partition_columns) == ((Column("a", "int"),), (Column("p", "string"),))


def test_table_like() -> None:
    assert parse("CREATE EXTERNAL TABLE a LIKE d.b STORED AS ORC LOCATION '/x' TBLPROPERTIES ('k'='v')") == (
        CreateTableLike(TableRef(None, "a"), TableRef("d", "b"), ORC, "/x", (("k", "v"),), external=True)
    )


def test_odd_names() -> None:
    found = create(
        "CREATE TABLE `my db`.`t.1``x` (`a b` int, `select` string, date date, map map<string,int>, from int)"
    )
    assert found.table == TableRef("my db", "t.1`x")
    assert [column.name for column in found.columns] == ["a b", "select", "date", "map", "from"]


@pytest.mark.parametrize(
    "constraint",
    [
        "a int NOT NULL DISABLE NOVALIDATE RELY COMMENT 'x'",
        "a int COMMENT 'x' DEFAULT 1 DISABLE",
        "a int CONSTRAINT c CHECK (a > 0) NOT ENFORCED COMMENT 'x'",
        "a int PRIMARY KEY COMMENT 'x'",
        "a int UNIQUE DISABLE NOVALIDATE COMMENT 'x'",
        "a int REFERENCES u (b) COMMENT 'x'",
        "a int COMMENT 'x', PRIMARY KEY (a) DISABLE NOVALIDATE",
        "a int COMMENT 'x', CONSTRAINT c FOREIGN KEY (a) REFERENCES u (b) DISABLE NOVALIDATE",
        "a int COMMENT 'x', UNIQUE (a), CHECK (a > 0) DISABLE",
    ],
)
def test_constraints_that_nobody_enforces_are_kept(constraint: str) -> None:
    found = create(f"CREATE TABLE t ({constraint})")
    assert found.columns == (Column("a", "int", "x"),)
    assert not any(one.enabled for one in found.constraints), found.constraints
    assert len(found.constraints) == 1 + constraint.count("UNIQUE (a)")


def test_enabled_constraints_and_their_texts() -> None:
    found = create(
        "CREATE TABLE t (a int NOT NULL DEFAULT -1 NORELY, b string CONSTRAINT C check (b in (')', 'x') -- no\n), "
        "CONSTRAINT both CHECK (a > 0 AND f(a, b)) ENABLE NOVALIDATE RELY, "
        "CONSTRAINT f FOREIGN KEY (b, a) REFERENCES o.u (y, x) DISABLE) PARTITIONED BY (p int NOT NULL)"
    )
    assert found.constraints == (
        Constraint(ConstraintKind.NOT_NULL, "", "a"),
        Constraint(ConstraintKind.DEFAULT, "", "a", "-1", rely=False),
        Constraint(ConstraintKind.CHECK, "c", "b", "b in (')', 'x')"),
        Constraint(ConstraintKind.CHECK, "both", None, "a > 0 AND f(a, b)"),
        Constraint(
            ConstraintKind.FOREIGN_KEY,
            "f",
            enabled=False,
            rely=False,
            key=("b", "a"),
            parent=TableName("o", "u"),
            parent_key=("y", "x"),
        ),
        Constraint(ConstraintKind.NOT_NULL, "", "p"),
    )


def test_names_in_double_quotes_are_names() -> None:
    found = create("""CREATE TABLE acid."Odd t" ("a ""b" varchar(3), p int)""")
    assert found.table == TableRef("acid", "odd t")
    assert found.columns == (Column('a "b', "varchar(3)"), Column("p", "int"))


def test_a_temporary_view_of_a_file_is_made_of_a_query() -> None:
    with pytest.raises(ParseError, match=r"AS SELECT \* FROM csv"):
        parse("CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/x')")


def test_temporary_views() -> None:
    assert parse("CREATE OR REPLACE TEMP VIEW v (a, b) AS SELECT 1, 2") == CreateTemporaryView(
        TableRef(None, "v"), Slice("SELECT 1, 2"), ("a", "b"), replace=True
    )
    assert parse("CREATE GLOBAL TEMPORARY VIEW v AS VALUES (1)") == CreateTemporaryView(
        TableRef(None, "v"), Slice("VALUES (1)"), is_global=True
    )


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("CREATE TABLE t", "", "columns in parentheses"),
        ("CREATE TABLE t ()", ")", "a column name"),
        ("CREATE TABLE t (a)", ")", "a type"),
        ("CREATE TABLE t (a int", "", "',' or '\\)'"),
        ("CREATE TABLE t (a int b int)", "b int", "COMMENT"),
        ("CREATE TABLE t (a integr)", "integr", "unknown type integr"),
        ("CREATE TABLE t (a int, A string)", "A string", "column a is given twice"),
        (
            "CREATE TABLE t (a int) PARTITIONED BY (a string)",
            "a string",
            "column a is both a column and a partition column",
        ),
        ("CREATE TABLE t (a int) PARTITIONED BY (p array<int>)", "p array", "primitive"),
        ("CREATE TABLE t (a int) PARTITIONED BY (p)", "p)", "has no type"),
        ("CREATE TABLE t (a int) CLUSTERED BY (b) INTO 2 BUCKETS", "b)", "not one of the table's columns"),
        ("CREATE TABLE t (a int) CLUSTERED BY (a) INTO 0 BUCKETS", "0", "at least one bucket"),
        ("CREATE TABLE t (a int) CLUSTERED BY (a) INTO x BUCKETS", "x", "number of buckets"),
        ("CREATE TABLE t (a int) STORED AS cobol", "cobol", "unknown file format"),
        ("CREATE TABLE t (a int) STORED BY 'x'", "BY 'x'", "storage handler"),
        ("CREATE TABLE t (a int) USING csv", "csv", "USING csv"),
        ("CREATE TABLE t (a int) USING orc OPTIONS ('a'='b')", "OPTIONS", "TBLPROPERTIES"),
        ("CREATE TABLE t (a int) SKEWED BY (a) ON (1)", "SKEWED", "skewed"),
        ("CREATE TABLE t (a int) STORED AS DIRECTORIES", "DIRECTORIES", "skewed"),
        ("CREATE TABLE t (a int) ROW FORMAT DELIMITED LINES TERMINATED BY ';'", "';'", "LINES"),
        ("CREATE TABLE t (a int) COMMENT 'a' COMMENT 'b'", "COMMENT 'b'", "COMMENT is given twice"),
        ("CREATE TABLE t (a int) WHATEVER", "WHATEVER", "expected COMMENT"),
        ("CREATE TABLE t (a int NOT NULL VALIDATE)", "VALIDATE", "write NOVALIDATE"),
        ("CREATE TABLE t (a int DEFAULT)", ")", "a default value"),
        ("CREATE TABLE t (a int, CHECK (a > 0, b))", ", b", "expected '\\)'"),
        ("CREATE TABLE t (a int PRIMARY KEY ENABLE)", "ENABLE", "only informs"),
        ("CREATE TABLE t (a int CONSTRAINT x)", ")", "a constraint"),
        ("CREATE TABLE a.b.t (x int)", "a.b", "two parts"),
        ("CREATE TABLE a.b.c.t (x int) WITH (format='ORC')", "a.b", "two parts"),
        ("CREATE TABLE t (x int) WITH (bucketed_by=ARRAY['x'])", "WITH", "of Trino is not supported: write"),
        ("CREATE TABLE t (x int) AS SELECT 1", "x int", "from the query"),
        ("CREATE TABLE t PARTITIONED BY (p int) AS SELECT 1", "p int", "without types"),
        ("CREATE TABLE t AS DROP TABLE u", "DROP", "a query"),
        ("CREATE TABLE t (x int) LIKE u", "TABLE t", "LIKE"),
        ("CREATE TEMPORARY TABLE t (x int)", "CREATE", "temporary tables"),
        ("CREATE TRANSACTIONAL EXTERNAL TABLE t (x int)", "TRANSACTIONAL", "external or managed"),
        ("CREATE OR REPLACE TABLE t (x int)", "OR", "only views.* INSERT OVERWRITE .* RENAME TO"),
        ("CREATE THING i", "THING", "TABLE"),
        ("CREATE TABLE t (a int) TBLPROPERTIES (a='b')", "a='b'", "name in quotes"),
        ("CREATE TABLE t (a int) TBLPROPERTIES ('a'=b)", "b)", "value in quotes"),
        ("CREATE TABLE select (a int)", "select", "a table name"),
    ],
)
def test_refused_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        parse(text)
    at = text.index(place) if place else len(text)
    assert (caught.value.line, caught.value.column) == (1, at + 1)
