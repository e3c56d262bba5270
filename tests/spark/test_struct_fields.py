"""Fields of structs in the verbs that match columns by name: by name, or by position if no name agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

Verb = "Callable[[AcidTable, DataFrame], object]"
BY_NAME: dict[str, Verb] = {
    "insert": lambda t, rows: t.insert(rows),
    "stream_writer": lambda t, rows: t.stream_writer("q", checkpoint="q")(rows, 0),
    "merge": lambda t, rows: t.merge(rows, on="t.k = s.k").when_not_matched_insert().execute(),
    "merging stream_writer": lambda t, rows: t.stream_writer("m", merge_on=["k"], checkpoint="q")(rows, 0),
}
SHAPES = {
    "": "{}",
    "array<": "array({})",
    "map<string,": "map('x', {})",
    "struct<f:": "named_struct('f', {})",
}


@pytest.mark.parametrize("verb", BY_NAME)
@pytest.mark.parametrize("shape", SHAPES)
def test_fields_keep_their_names_or_are_refused(
    acid: AcidSession, spark: SparkSession, verb: str, shape: str
) -> None:
    kind = f"{shape}struct<a:int,b:int>" + ">" * shape.count("<")
    acid.sql(f"CREATE TABLE t (k INT, s {kind}) TBLPROPERTIES ('transactional'='true')")

    def rows(struct: str) -> DataFrame:
        return spark.sql(f"SELECT 1 AS k, {SHAPES[shape].format(struct)} AS s")

    for refused in (
        "named_struct('b', 20, 'c', 30)",
        "named_struct('a', 1, 'c', 30)",
        "named_struct('c', 1, 'A', 2)",
        "named_struct('col2', 1, 'b', 2)",
    ):
        with pytest.raises(SchemaMismatchError, match="names of the column's"):
            BY_NAME[verb](acid.table("t"), rows(refused))
    assert acid.table("t").to_df().count() == 0
    for struct in ("named_struct('B', 2, 'a', 1)", "struct(1, 2)", "named_struct('x', 1, 'y', 2)"):
        if "stream" not in verb or "B" in struct:  # a batch id is written once
            BY_NAME[verb](acid.table("t"), rows(struct))
            assert '"a":1,"b":2' in str(acid.sql("SELECT to_json(struct(s)) AS s FROM t").first())
            acid.table("t").delete()


def test_update_takes_the_unchanged_field_of_a_struct(acid: AcidSession) -> None:
    """``struct(s.a + 1, s.b)`` has the fields col1 and b: the name that agrees is where it was."""
    acid.sql("CREATE TABLE t (s STRUCT<a: INT, b: INT>) TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t SELECT named_struct('b', 1, 'c', 2)")  # by position, as in Spark and Hive
    acid.sql("UPDATE t SET s = struct(s.a + 1, s.b)")
    assert acid.sql("SELECT s.a, s.b FROM t").collect() == [(2, 2)]
    with pytest.raises(SchemaMismatchError, match="names of the column's"):
        acid.sql("UPDATE t SET s = struct(s.b, s.a + 1)")
