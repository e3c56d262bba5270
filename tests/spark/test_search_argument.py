"""Row groups are skipped, and no row is ever lost by it: against the same condition without a search argument."""

from __future__ import annotations

import datetime as dt
import re
import string
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from hiveacid.core.model import Column, StorageFormat, TableDefinition, TableName
from hiveacid.core.predicates import Comparison, Operator
from hiveacid.core.schema.storage_formats import ORC, PARQUET
from hiveacid.spark.formats.expressions import as_column
from hiveacid.spark.formats.file_columns import from_file
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.predicates.column_conditions import table_conjuncts
from hiveacid.spark.predicates.search_argument import (
    PredicateLeaf,
    SearchArgumentBuilder,
    predicate_leaf,
    search_argument,
)
from hiveacid.spark.read.acid_rows import _KEEP_COLUMNS, ABSENT_FIELD
from hiveacid.spark.session.environment import SparkEnvironment
from support.exhaustive import ALL, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP = 1000  # rows of a row group: the least that ORC's writer takes
GROUPS = 12
STORAGE = StorageFormat("orc", "orc", "orc")


def arguments(env: SparkEnvironment, table: TableDefinition, where: str) -> dict[str, str]:
    return search_argument(env, table, table_conjuncts(env, table, where)).reader_options()


FULL = (("transactional", "true"),)

# name, type, what row ``id`` holds (groups 7 and 8 hold NULLs only, see `written`)
COLUMNS = {
    "t": ("tinyint", "cast(id div 50 - 128 as tinyint)"),
    "m": ("smallint", "cast(id * 5 - 30000 as smallint)"),
    "i": ("int", "cast(if(id = 11999, 2147483647, if(id = 0, -2147483648, id - 6000)) as int)"),
    "b": ("bigint", "if(id = 11999, 9223372036854775807, if(id = 0, -9223372036854775808, id * 1000003))"),
    "s": ("string", "concat(substr('aeiouAEIOU09', 1 + id div 1000, 1), lpad(id, 5, '0'))"),
    "u": (
        "string",
        """concat(element_at(array('', ' ', 'a', 'a ', 'Kö', 'Kz', 'z', 'é', '\\u4e2d', '\\uffee', '😀', 'zz'),
        cast(1 + id div 1000 as int)), if(id % 3 = 0, '', cast(id % 7 as string)))""",
    ),
    "long": ("string", "concat(repeat('x', 1100), lpad(id, 5, '0'))"),
    "v": ("varchar(10)", "concat('v', lpad(id, 5, '0'))"),
    "c": ("char(8)", "rpad(concat('c', lpad(id, 5, '0')), 8, ' ')"),
    "d": ("date", "if(id < 1000, date_add(date'1500-01-01', int(id)), date_add(date'1995-01-01', int(id)))"),
    "ts": ("timestamp", "timestamp_seconds(-100000000 + id * 86400)"),
    "p": ("decimal(12,3)", "cast((id - 6000) * 0.125 as decimal(12,3))"),
    "q": ("decimal(38,10)", "cast(id * 12345678901.5 as decimal(38,10))"),
    "f": ("float", "cast(if(id % 2000 = 3, 'NaN', if(id % 2000 = 5, '-0.0', (id - 6000) / 8)) as float)"),
    "x": (
        "double",
        "cast(if(id % 3000 = 1003, 'NaN', if(id div 1000 = 6, if(id%2=0,-0.0D,0.0D), id / 3)) as double)",
    ),
    "g": ("float", "cast(id * 0.1D as float)"),
    "flag": ("boolean", "id < 5000"),
    "bucket": ("int", "cast(id as int)"),
    "rowid": ("bigint", "id"),
}


def table_of(columns: dict[str, str]) -> TableDefinition:
    return TableDefinition(
        TableName("db", "tab"),
        tuple(Column(name, kind) for name, kind in columns.items()),
        STORAGE,
        "/nowhere",
        properties=FULL,
    )


TABLE = table_of({name: kind for name, (kind, _) in COLUMNS.items()})


def written(spark: SparkSession, path: Path, columns: dict[str, tuple[str, str]], first: int = 0) -> str:
    """Write one ACID file with many row groups as Spark does it, ``row`` nested."""
    ids = spark.range(first, first + GROUP * GROUPS, numPartitions=1)
    empty = "(id div 1000 in (7, 8) or (id % 11 = 4 and id div 1000 in (2, 5)))"
    row = ", ".join(
        f"'{name}', cast(if({empty}, null, {value}) as {'string' if 'char' in kind else kind})"
        for name, (kind, value) in columns.items()
    )
    ids.selectExpr(
        "0 AS operation",
        "1L AS originalTransaction",
        "536870912 AS bucket",
        "id AS rowId",
        "1L AS currentTransaction",
        f"named_struct({row}) AS row",
    ).write.option("orc.row.index.stride", str(GROUP)).orc(str(path))
    return str(path)


@dataclass(frozen=True)
class Files:
    """Where the tests' files are, and the rows they hold."""

    spark: SparkSession
    paths: tuple[str, ...]
    table: TableDefinition = TABLE

    @property
    def env(self) -> SparkEnvironment:
        return SparkEnvironment(self.spark)

    def read(self, arguments: dict[str, str], where: str | None = None) -> DataFrame:
        """Read as ``spark.read.scan_frames`` does: all columns, or those that a condition mentions."""
        row = ", ".join(f"`{c.name}`: {column_type(c).simpleString()}" for c in self.table.columns)
        six = (
            "operation int, originalTransaction bigint, bucket int, rowId bigint, currentTransaction bigint, "
            f"row struct<{row}, {ABSENT_FIELD}: int>"
        )
        frame = (
            self.spark.read.schema(six)
            .options(**arguments)
            .orc(list(self.paths))
            .where(f"{_KEEP_COLUMNS} = 0")
        )
        users = [
            as_column(from_file(self.env, F.col("row").getField(c.name), c.type)).alias(c.name)
            for c in self.table.columns
            if where is None or re.search(rf"\b{c.name}\b", where)
        ]
        return frame.select(*users, F.coalesce(F.col("rowId"), F.lit(-1)).alias("ROW__ID")).alias("tab")

    def arguments(self, where: str) -> dict[str, str]:
        return arguments(self.env, self.table, where)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(spark, (written(spark, tmp_path_factory.mktemp("acid") / "base_0000001", COLUMNS),))


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Run without generated code: a hundred small scans would compile a hundred classes."""
    chosen = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {key: spark.conf.get(key, None) for key in chosen}
    for key, value in chosen.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def without_loss(files: Files, conditions: Sequence[str]) -> None:
    """Assert for many conditions at once that rows are the same with and without the search argument."""
    with interpreted(files.spark):
        _compare(files, conditions)


def _compare(files: Files, conditions: Sequence[str]) -> None:
    fingerprint = "coalesce(sum(xxhash64(ROW__ID) % 1000000007), 0)"
    parts = []
    for place, where in enumerate(conditions):
        frame = files.read(files.arguments(where), where).where(where)
        parts.append(frame.selectExpr(f"{place} AS place", "count(*) AS rows", f"{fingerprint} AS print"))
    # Each condition would have a class of its own, which runs once: compiling it costs more than the rows.
    files.spark.conf.set("spark.sql.codegen.wholeStage", "false")
    found = {r.place: (r.rows, r.print) for r in reduce(lambda a, b: a.union(b), parts).collect()}
    expected_columns = [
        expression
        for place, where in enumerate(conditions)
        for expression in (
            f"count_if({where}) AS r{place}",
            f"coalesce(sum(if({where}, xxhash64(ROW__ID) % 1000000007, 0)), 0) AS p{place}",
        )
    ]
    expected = files.read({}).selectExpr(*expected_columns).first()
    files.spark.conf.unset("spark.sql.codegen.wholeStage")
    for place, where in enumerate(conditions):
        assert found[place] == (expected[f"r{place}"], expected[f"p{place}"]), where


def scanned(frame: DataFrame) -> int:
    """Return the number of rows that left the scan."""
    frame.collect()

    def walk(node: Any) -> int:
        if node.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            return walk(node.executedPlan())
        if node.getClass().getSimpleName() == "FileSourceScanExec":
            return int(node.metrics().apply("numOutputRows").value())
        children = node.children()
        return sum(walk(children.apply(place)) for place in range(children.size()))

    return walk(frame._jdf.queryExecution().executedPlan())


HAND_PICKED = [
    "t = -128", "t >= 100 AND t <= 200", "m IN (5, -30000, null)", "i = -2147483648", "i > 2147483646",
    "i = 5.0", "i < 5.5", "b = 9223372036854775807", "b <= -9223372036854775808", "b <=> null", "i IS NULL",
    "i IS NOT NULL", "s = 'a00001'", "s < 'a'", "s >= 'u'", "s BETWEEN 'A' AND 'B'", "s IN ('x', 'i02002')",
    "u = ''", "u = ' '", "u = 'a'", "u = 'a '", "u = 'Kö'", "u >= 'Kö'", "u < 'Kö'", "u <= 'é'", "u = '中1'",
    "u > '中'", "u = '\uffee'", "u >= '\uffee'", "u <= '\uffee'", "u = '😀'", "u >= '😀'", "u < '😀1'",
    "u IN ('Kö', '😀2', 'z')", "u BETWEEN 'é' AND '\uffee'", "u IS NULL", "u IS NOT NULL",
    "long = concat(repeat('x', 1100), '03003')", f"long = '{'x' * 1100}03003'", f"long >= '{'x' * 1100}1'",
    f"long < '{'x' * 1023}y'", f"long <= '{'x' * 1024}'", "v = 'v00007'", "v > 'v11'", "c = 'c00007'",
    "c = 'c00007  '", "d = date'1500-01-01'", "d = '1996-05-05'", "d > date'2020-01-01'", "d < date'1600-01-01'",
    "d BETWEEN '2000-01-01' AND '2000-01-03'", "ts = timestamp'1970-01-01 00:00:00'", "ts < '1967-01-01'",
    "ts BETWEEN '1980-01-01' AND '1980-02-01'", "p = 0", "p = 0.125", "p > 700", "p < -749.999", "p = 1.1255",
    "p IN (1.125, 2, 3.25)", "q = 12345678901.5", "q > 1e14", "f = -0.0", "f = 0", "f <= 0", "f < 0",
    "f = 74.75", "f = cast(74.75 as float)", "g = cast(299.9 as float)", "g = 299.9", "f > 700", "f >= cast('NaN' as float)", "f <= cast('NaN' as float)",
    "x = 0", "x = -0.0D", "x <= 0", "x < 0.0D", "x >= 0", "x > 3999", "x = cast('NaN' as double)",
    "x BETWEEN -0.0D AND 0.0D", "x BETWEEN 0.0D AND -0.0D", "x < cast('Infinity' as double)", "flag", "NOT flag",
    "flag = false", "bucket = 5", "rowid = 11000", "bucket < 10 AND i > 0", "i = 5 AND s = 'A06005'",
    "i = 5 OR s = 'a00001'", "(i BETWEEN 1 AND 3) AND (d > '1990-01-01' AND NOT flag)", "i NOT BETWEEN 1 AND 11990",
    "i = (5)", "5 = i", "i + 0 = 5", "tab.i = 77", "i IN (SELECT 5)", "1 = 1", "i = null",
]  # fmt: skip


def test_no_row_is_lost_for_conditions_at_the_edges(files: Files) -> None:
    subqueries = {"i IN (SELECT 5)"}  # not allowed inside count_if
    without_loss(files, sample([where for where in HAND_PICKED if where not in subqueries], 12))
    assert files.read(files.arguments("i IN (SELECT 5)")).where("i IN (SELECT 5)").count() == 1


@pytest.mark.sampled(10, "the cases differ in one value each")
@pytest.mark.parametrize(
    "where",
    [
        "t = 100",
        "m = 20005",
        "i = 5",
        "i < -5500",
        "i > 5500",
        "i BETWEEN 5 AND 10",
        "i IN (3, 5, 1400)",
        "b = 1000003",
        "s = 'u05000'",  # group 5 holds NULLs: it is read, the groups without are not
        "s >= 'u'",
        "v = 'v00007'",
        "d = '1998-01-01'",
        "d > '2026-01-01'",
        "ts < '1967-01-01'",
        "p = 0.125",
        "p < -700",
        "q = 12345678901.5",
        "f < -700",
        "x BETWEEN 100 AND 101",
        "flag",
        "i IS NULL",
        "i = 5 AND upper(s) LIKE '%'",
    ],
)
def test_row_groups_are_skipped(files: Files, where: str) -> None:
    everything, less = files.read({}).where(where), files.read(files.arguments(where)).where(where)
    assert scanned(everything) == GROUP * GROUPS
    assert scanned(less) <= 7 * GROUP
    assert sorted(r.ROW__ID for r in less.collect()) == sorted(r.ROW__ID for r in everything.collect())


@pytest.mark.parametrize(
    "where",
    [
        "c = 'c00007'",
        "bucket = 5",
        "rowid = 5",
        "x > 3",
        "x = cast('NaN' as double)",
        "u = '中'",
        "d = date'1500-01-01'",
        "i + 1 = 5",
        "i = 1 OR i = 2",
        "i <> 5",
        "i = b",
        "s LIKE 'a%'",
        "rand() < 2",
        "d < current_date()",
        "i = (SELECT 5)",
        "ROW__ID.rowid = 5",
        "INPUT__FILE__NAME = 'x'",
    ],
)
def test_what_is_not_certain_is_not_used(files: Files, where: str) -> None:
    assert files.arguments(where) == {}


def test_tables_of_other_files_have_none(files: Files) -> None:
    plain = TableDefinition(TableName("db", "plain"), TABLE.columns, PARQUET, "/nowhere")
    assert arguments(files.env, plain, "i = 5") == {}
    assert arguments(files.env, replace(plain, storage=ORC), "i = 5") == files.arguments("i = 5")
    assert set(files.arguments("i = 5 AND s = 'x'")) >= {"orc.kryo.sarg", "orc.sarg.column.names"}
    assert files.arguments("i = 5 AND s = 'x'")["orc.sarg.column.names"] == "i,s"


def test_partition_columns_are_not_asked_of_orc(files: Files) -> None:
    table = TableDefinition(
        TableName("db", "parted"),
        TABLE.columns,
        STORAGE,
        "/nowhere",
        partition_columns=(Column("dt", "date"),),
        properties=FULL,
    )
    assert arguments(files.env, table, "dt = '2020-01-01'") == {}
    assert arguments(files.env, table, "dt = '2020-01-01' AND i = 1")["orc.sarg.column.names"] == "i"


def test_row_groups_whose_statistics_lack_a_minimum_are_read(files: Files) -> None:
    """Presto leaves the minimum of long strings out, and ORC then takes all values for NULLs (ORC 1.9 to 2.3)."""
    jvm: Any = files.spark._jvm
    proto = jvm.org.apache.orc.OrcProto
    strings = proto.StringStatistics.newBuilder().setMaximum("z").setSum(700).build()
    message = proto.ColumnStatistics.newBuilder().setNumberOfValues(10).setStringStatistics(strings).build()
    statistics = jvm.org.apache.orc.impl.ColumnStatisticsImpl.deserialize(
        jvm.org.apache.orc.TypeDescription.fromString("string"), message
    )
    truth = jvm.java.lang.Class.forName("org.apache.hadoop.hive.ql.io.sarg.SearchArgument$TruthValue")

    def needed(leaf: PredicateLeaf) -> bool:
        builder = SearchArgumentBuilder(files.env)
        builder.add(leaf)
        argument = builder.build()
        leaves = argument.getLeaves()
        values = jvm.java.lang.reflect.Array.newInstance(truth, leaves.size())
        for place, each in enumerate(leaves):
            values[place] = jvm.org.apache.orc.impl.RecordReaderImpl.evaluatePredicate(statistics, each, None)
        return bool(argument.evaluate(values).isNeeded())

    for operator in ("EQUAL", "LESS", "LESS_OR_EQUAL", "GREATER", "GREATER_OR_EQUAL", "IN"):
        leaf = predicate_leaf(Comparison("s", Operator[operator], ("x",)), "string")
        assert leaf is not None
        assert needed(leaf), operator
        assert not needed(replace(leaf, or_null=False)), "ORC has learnt better: the guard may go"
    for kind in ("string", "varchar(100)"):
        assert predicate_leaf(Comparison("s", Operator.IS_NOT_NULL), kind) is None
        leaf = predicate_leaf(Comparison("s", Operator.IS_NULL), kind)
        assert leaf is not None
        assert needed(leaf)
        assert not needed(replace(leaf, null=False)), "ORC has learnt better: IS NOT NULL may be used"


# Random conditions over random literals near the data and far from it.

_SQL_TEXT = st.text(st.sampled_from("aeiouz09 Kö中\uffee😀\x7f" + string.ascii_uppercase), max_size=4)
_DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)) | st.dates(
    dt.date(1994, 12, 1), dt.date(2028, 1, 1)
)
_LITERALS: dict[str, st.SearchStrategy[str]] = {
    "t": st.integers(-140, 140).map(str),
    "m": st.integers(-33000, 33000).map(str),
    "i": st.integers(-6100, 6100).map(str) | st.floats(-6000, 6000, width=16).map(lambda v: f"{v:.1f}"),
    "b": st.integers(-(2**63) + 1, 2**63 - 1).map(str)
    | st.integers(0, 12000).map(lambda v: f"{v * 1000003}L"),
    "s": _SQL_TEXT.map(lambda v: f"'{v}'") | st.integers(0, 12000).map(lambda v: f"'a{v:05}'"),
    "u": _SQL_TEXT.map(lambda v: f"'{v}'"),
    "v": st.integers(0, 12000).map(lambda v: f"'v{v:05}'"),
    "c": st.integers(0, 12000).map(lambda v: f"'c{v:05}'"),
    "d": _DATES.map(lambda v: f"date'{v.isoformat()}'"),
    "ts": st.integers(-200_000_000, 1_000_000_000).map(lambda v: f"timestamp_seconds({v})")
    | _DATES.map(lambda v: f"timestamp'{v.isoformat()} 12:34:56.789'"),
    "p": st.decimals(-760, 760, places=3).map(str) | st.integers(-760, 760).map(str),
    "q": st.integers(0, 12000).map(lambda v: f"{v * 123456789015}e-1BD"),
    "f": st.floats(-760, 760, width=32).map(lambda v: f"cast('{v!r}' as float)")
    | st.sampled_from(["cast('NaN' as float)", "0", "cast('-0.0' as float)", "cast('-Infinity' as float)"]),
    "x": st.floats(-10, 4010).map(lambda v: f"cast('{v!r}' as double)")
    | st.sampled_from(["0", "-0.0D", "'NaN'"]),
}


@st.composite
def conditions(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(_LITERALS)))
    literal = _LITERALS[column]
    match draw(st.sampled_from(["compare", "in", "between", "null"])):
        case "compare":
            operator = draw(st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]))
            sides = [column, draw(literal)]
            sides = sides if draw(st.booleans()) else sides[::-1]
            return f"{sides[0]} {operator} {sides[1]}"
        case "in":
            return f"{column} IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=5)))})"
        case "between":
            return f"{column} BETWEEN {draw(literal)} AND {draw(literal)}"
        case _:
            return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"


_AT_ONCE = 30 if ALL else 12  # conditions of an example


@settings(max_examples=4 if ALL else 1, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        conditions() | st.tuples(conditions(), conditions()).map(" AND ".join),
        min_size=_AT_ONCE,
        max_size=_AT_ONCE,
    )
)
def test_no_row_is_lost_for_random_conditions(files: Files, wanted: list[str]) -> None:
    without_loss(files, wanted)


def test_no_row_is_lost_where_session_and_jvm_are_in_different_zones(files: Files) -> None:
    before = files.env.session_time_zone
    try:
        for zone in sample(("Pacific/Kiritimati", "Pacific/Pago_Pago"), 1):
            files.spark.conf.set("spark.sql.session.timeZone", zone)
            without_loss(
                files,
                sample([f"ts {operator} timestamp'{day}'" for operator in ("=", "<", ">=")
                        for day in ("1968-01-01 10:33:20", "1968-01-01", "1976-03-05 14:13:20", "1995-01-01")], 6),
            )  # fmt: skip
    finally:
        files.spark.conf.set("spark.sql.session.timeZone", before)


def test_no_row_is_lost_where_files_have_other_types(spark: SparkSession, tmp_path: Path) -> None:
    """A table whose columns were widened, changed, renamed away and added since its files were written."""
    old = {
        "i": ("tinyint", "cast(id div 100 as tinyint)"),
        "s": ("int", "cast(id as int)"),
        "p": ("decimal(10,1)", "cast(id * 0.5 as decimal(10,1))"),
        "x": ("float", "cast(id * 0.1 as float)"),
        "d": ("string", "cast(date_add(date'2000-01-01', int(id)) as string)"),
    }
    new = {
        "p": ("decimal(12,3)", "cast(id * 0.125 as decimal(12,3))"),
        "i": ("bigint", "id"),
        "x": ("double", "id * 0.1D"),
        "s": ("string", "cast(id as string)"),
        "d": ("date", "date_add(date'2000-01-01', int(id))"),
        "added": ("int", "cast(id as int)"),
    }
    paths = (
        written(spark, tmp_path / "delta_0000001_0000001", old),
        written(spark, tmp_path / "delta_0000002_0000002", new, first=GROUP * GROUPS),
    )
    files = Files(spark, paths, table_of({name: kind for name, (kind, _) in new.items()}))
    wanted = [
        "i = 5", "i >= 100", "i BETWEEN 3 AND 12000", "s = '5'", "s > '9'", "s < '1'", "s = '12345'", "p = 5.5",
        "p = 1500.125", "p < 1", "p > 2999", "x = 0.1", "x < 0.5", "x = cast(0.1 as float)", "d = '2001-01-01'",
        "d > '2060-01-01'", "added = 12345", "added IS NULL", "added IS NOT NULL", "added < 12002",
        "x BETWEEN 1 AND 1.2",
    ]  # fmt: skip
    without_loss(files, sample(wanted, 8))
    assert scanned(files.read(files.arguments("i = 15000")).where("i = 15000")) <= 3 * GROUP
