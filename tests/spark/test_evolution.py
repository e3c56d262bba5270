"""Files whose columns are not exactly those of the table: old names, other orders, other types, ACID v1, streams."""

from __future__ import annotations

import ast
import datetime as dt
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyorc
import pytest

import hiveacid
from hiveacid.errors import BadFileError, CompactionRefusedError, UnsupportedFeatureError
from hiveacid.spark.session.error_translation import translate_errors
from support.corpus.sort_merge_reader import read_location
from support.exhaustive import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.table.acid_table import AcidTable

EVENTS = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:struct<{}>>"
PROPERTY = 1 << 29
NO_OPEN = 2**63 - 1
MATRIX = Path(__file__).parents[1] / "golden" / "orc_conversions.json"
TARGETS = (
    "boolean",
    "int",
    "double",
    "decimal(10,2)",
    "string",
    "char(6)",
    "varchar(3)",
    "timestamp",
    "date",
)
Event = tuple[int, int, int, int, int, tuple[Any, ...] | None]
"""Operation, original write id, bucket property, row id, current write id, values."""


@pytest.fixture(scope="module")
def acid(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """One connection for the module."""
    import hiveacid  # noqa: PLC0415

    connection = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("evolution")))
    yield connection
    connection.close()


def write_events(path: Path, row: str, events: Iterable[Event]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = pyorc.Writer(file, EVENTS.format(row))
        for event in events:
            writer.write(event)
        writer.close()


def write_inserts(path: Path, row: str, write_id: int, rows: Iterable[tuple[Any, ...]]) -> None:
    write_events(path, row, ((0, write_id, PROPERTY, n, write_id, values) for n, values in enumerate(rows)))


def write_flat(path: Path, row: str, rows: Iterable[tuple[Any, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = pyorc.Writer(file, f"struct<{row}>")
        for values in rows:
            writer.write(values)
        writer.close()


def adopt(
    acid: AcidSession, location: Path, name: str, columns: str, properties: str = "", ids: str | None = None
) -> AcidTable:
    ddl = f"CREATE TABLE {name} ({columns}) STORED AS ORC TBLPROPERTIES ('transactional'='true'{properties})"
    return acid.adopt(
        ddl, location=str(location), valid_write_ids=None if ids is None else f"default.{name}:{ids}"
    )


def values(acid: AcidSession, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in acid.sql(query).collect()), key=repr)


def mixed(location: Path) -> None:
    """Rows 1 to 4 in an original without names, in deltas without, with old, and with swapped names."""
    write_flat(
        location / "000000_0", "_col0:int,_col1:string,_col2:struct<x:int,y:string>", [(1, "one", (10, "i"))]
    )
    old = "_col0:int,_col1:string,_col2:struct<x:int,y:string>"
    write_inserts(location / "delta_1_1_0/bucket_00000", old, 1, [(2, "two", (20, "j"))])
    write_inserts(location / "delta_2_2_0/bucket_00000", "b:int,a:varchar(9)", 2, [(3, "three")])
    now = "a:bigint,b:string,s:struct<y:string,x:int>,d:double"
    write_inserts(location / "delta_3_3_0/bucket_00000", now, 3, [(4, "four", ("l", 40), 4.5)])


@pytest.mark.exhaustive("columns matched by name stay")
def test_columns_are_matched_by_position_also_where_files_have_no_names(
    acid: AcidSession, tmp_path: Path
) -> None:
    mixed(tmp_path / "t")
    adopt(acid, tmp_path / "t", "pos", "a BIGINT, b VARCHAR(4), s STRUCT<x:INT,y:STRING>, d DOUBLE")
    assert values(acid, "SELECT a, b, s.x, s.y, d FROM pos") == [
        (1, "one", 10, "i", None),
        (2, "two", 20, "j", None),
        (3, "thre", None, None, None),
        (4, "four", 40, "l", 4.5),
    ]
    assert values(acid, "SELECT b FROM pos") == [("four",), ("one",), ("thre",), ("two",)]
    assert values(acid, "SELECT s.y FROM pos WHERE a = 2") == [("j",)]
    assert values(acid, "SELECT s.x FROM pos WHERE b = 'two'") == [(20,)]
    assert values(acid, "SELECT a FROM pos WHERE b = 'thre'") == [(3,)]  # longer in the statistics
    assert values(acid, "SELECT count(*) FROM pos") == [(4,)]
    assert values(acid, "SELECT sum(a), max(s.x) FROM pos") == [(10, 40)]
    assert values(acid, "SELECT ROW__ID.writeid, a FROM pos") == [(0, 1), (1, 2), (2, 3), (3, 4)]
    acid.sql("CREATE TABLE starts (k STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO starts VALUES ('p')")
    correlated = (
        "(SELECT count(*) FROM starts WHERE k < b)"  # Spark drops the scan's filter where it reads the keys
    )
    for relation in ("pos", "(SELECT a, b FROM pos WHERE a > 0)"):
        assert values(acid, f"SELECT a FROM {relation} WHERE {correlated} > 0") == [(2,), (3,)]
    acid.sql("UPDATE pos SET b = upper(b) WHERE s.x >= 20")
    acid.sql("DELETE FROM pos WHERE b = 'one'")
    expected = [(2, "TWO", 20), (3, "thre", None), (4, "FOUR", 40)]
    assert values(acid, "SELECT a, b, s.x FROM pos") == expected
    acid.sql("ALTER TABLE pos COMPACT 'major'")
    assert values(acid, "SELECT a, b, s.x FROM pos") == expected


def test_columns_are_matched_by_name_where_the_table_says_so(acid: AcidSession, tmp_path: Path) -> None:
    for number, how in enumerate(
        ("'hiveacid.layout.level'='hive3'", "'orc.force.positional.evolution'='false'")
    ):
        mixed(tmp_path / f"t{number}")
        adopt(acid, tmp_path / f"t{number}", f"named{number}", "b STRING, a STRING, d DOUBLE", f", {how}")
        assert values(acid, f"SELECT a, b FROM named{number}") == [
            ("4", "four"),
            ("one", "1"),  # without names: by position all the same
            ("three", "3"),
            ("two", "2"),
        ]


def test_values_are_converted_as_hive_converts_them(acid: AcidSession, tmp_path: Path) -> None:
    """The expected values are Hive 4.0.1's own (tests/golden/README.md)."""
    stored = {
        "boolean": [True, False],
        "tinyint": [-128, 127],
        "smallint": [-32768, 300],
        "int": [-(2**31), 70000],
        "bigint": [-(2**63), 5000000000],
        "float": [1.5, 3e38],
        "double": [-2.25, 1e300],
        "decimal(10,2)": [Decimal("12345678.91"), Decimal("-0.05")],
        "decimal(38,18)": [Decimal("12345678901234567890.123456789012345678"), Decimal("-1.5")],
        "string": ["12", "x y "],
        "varchar(5)": ["12.5", "abcde"],
        "char(4)": ["7", "ab"],
        "binary": [b"ab", b"\xff"],
        "timestamp": [dt.datetime(2020, 2, 3, 4, 5, 6, 789000), dt.datetime(1969, 12, 31, 23, 0, 0)],  # noqa: DTZ001
        "date": [dt.date(2020, 2, 3), dt.date(1600, 1, 1)],
    }
    rows = [*zip(*stored.values(), strict=True), (None,) * len(stored)]
    row = ",".join(f"f{n}:{kind}" for n, kind in enumerate(stored))
    kinds = list(stored)
    hive = json.loads(MATRIX.read_text(encoding="utf-8"))
    compared: set[tuple[str, str]] = set()
    for number, wanted in enumerate(TARGETS):
        by_kind = hive[wanted]
        write_inserts(tmp_path / f"t{number}/delta_1_1_0/bucket_00000", row, 1, rows)
        columns = ", ".join(f"c{n} {wanted}" for n in range(len(kinds)))
        table = adopt(acid, tmp_path / f"t{number}", f"m{number}", columns)
        readable = [kind for kind in kinds if kind in by_kind and _alike(kind, wanted)]
        names = [f"c{kinds.index(kind)}" for kind in readable]
        found = table.scan(columns=names, row_ids=True).to_df().orderBy("ROW__ID").collect()
        for name, kind in zip(names, readable, strict=True):
            assert [_plain(row[name]) for row in found] == [_parsed(text) for text in by_kind[kind]], (
                kind,
                wanted,
            )
            with hiveacid.open(acid.context.warehouse) as warehouse, suppress(UnsupportedFeatureError):
                without_spark = warehouse.table(f"m{number}").to_arrow([name]).column(0).to_pylist()
                assert without_spark == [row[name] for row in found], (kind, wanted)
                compared.add((kind, wanted))
        refused = next((f"c{kinds.index(kind)}" for kind in kinds if kind not in by_kind), None)
        if refused:
            with pytest.raises(BadFileError, match=f"column {refused} is .*bucket_00000"), translate_errors():
                acid.sql(f"SELECT {refused} FROM m{number}").collect()
    assert {("char(4)", "string"), ("char(4)", "varchar(3)"), ("char(4)", "char(6)")} <= compared


def _alike(kind: str, wanted: str) -> bool:
    """Leave out numbers and timestamps: they are refused, because Hive's versions differ."""
    others = ("string", "varchar", "char", "date", "timestamp")
    return "timestamp" not in (kind, wanted) or (kind.startswith(others) and wanted.startswith(others))


def _plain(value: Any) -> Any:
    return (
        bytes(value)
        if isinstance(value, bytearray)
        else value.normalize()
        if isinstance(value, Decimal)
        else value
    )


def _parsed(text: str) -> Any:
    """Read a value as Python's repr wrote it."""
    if text.startswith("Decimal("):
        return Decimal(text[9:-2]).normalize()
    if text.startswith("datetime."):
        kind, _, arguments = text.removeprefix("datetime.").partition("(")
        numbers = map(int, arguments.rstrip(")").split(", "))
        return dt.date(*numbers) if kind == "date" else dt.datetime(*numbers)  # noqa: DTZ001
    return ast.literal_eval(text)


def test_a_name_with_a_back_quote_is_read_by_position(acid: AcidSession, tmp_path: Path) -> None:
    write_inserts(
        tmp_path / "t/delta_1_1_0/bucket_00000", "a:int,`b``c`:string,z:int", 1, [(1, "x", 7), (2, "y", 8)]
    )
    adopt(acid, tmp_path / "t", "quoted", "a INT, plain STRING, z INT")
    assert values(acid, "SELECT plain, z FROM quoted WHERE z > 7") == [("y", 8)]
    assert values(acid, "SELECT plain FROM quoted") == [("x",), ("y",)]
    acid.sql(
        "CREATE TABLE own (a INT, `b``c` STRING, z STRUCT<x:INT,y:INT>) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO own VALUES (1, 'x', named_struct('x', 1, 'y', 2)), (2, 'y', NULL)")
    acid.sql("UPDATE own SET `b``c` = 'new' WHERE `b``c` = 'y'")
    acid.sql("ALTER TABLE own ADD COLUMNS (`d``e` INT)")
    for compacted in (False, True):
        assert values(acid, "SELECT `b``c`, z.y, `d``e` FROM own") == [("new", None, None), ("x", 2, None)]
        assert values(acid, "SELECT `b``c` FROM own WHERE `b``c` = 'x'") == [("x",)]
        if not compacted:
            acid.sql("ALTER TABLE own COMPACT 'major'")


def test_acid_v1_is_read_by_its_sort_merge_rule(acid: AcidSession, tmp_path: Path) -> None:
    """Random histories in the layout of Hive 1, against a sort-merge over all events in plain Python."""
    for seed in (*sample([0, 3], 1), *sample([1, 2, 4, 5], 1)):  # the former are compacted, too
        location = tmp_path / f"t{seed}"
        expected = _history(location, Random(seed))
        table = adopt(acid, location, f"v1_{seed}", "k INT, v STRING")
        assert values(acid, f"SELECT k, v FROM v1_{seed}") == sorted(expected, key=repr), seed
        assert values(acid, f"SELECT v FROM v1_{seed} WHERE k % 2 = 0") == sorted(
            ((v,) for k, v in expected if k % 2 == 0), key=repr
        )
        if seed % 3:
            continue
        for statement in (
            "UPDATE {} SET v = 'x'",
            "DELETE FROM {} WHERE k = 1",
            "INSERT INTO {} VALUES (1, 'x')",
        ):
            with pytest.raises(UnsupportedFeatureError, match="COMPACT 'major'"):
                acid.sql(statement.format(f"v1_{seed}"))
        with pytest.raises(CompactionRefusedError, match="COMPACT 'major'"):
            table.compact("minor")
        table.compact("major")
        assert values(acid, f"SELECT k, v FROM v1_{seed}") == sorted(expected, key=repr)
        ids = acid.context.store.valid_write_ids(acid.context.store.valid_txns(), [table.name])[table.name]
        assert sorted(row[3] for row in read_location(location, ids.to_string())) == sorted(expected)
        acid.sql(f"UPDATE v1_{seed} SET v = 'new' WHERE k % 2 = 0")
        assert values(acid, f"SELECT k, v FROM v1_{seed}") == sorted(
            ((k, "new" if k % 2 == 0 else v) for k, v in expected), key=repr
        )


def _history(location: Path, random: Random) -> list[tuple[int, str]]:
    """Write originals, inserts, updates and deletes as Hive 1 laid them out; return the rows that live."""
    names = random.choice(["_col0:int,_col1:string", "k:int,v:string"])
    live: dict[tuple[int, int, int], tuple[int, str]] = {}
    write_flat(location / "000000_0", names, rows := [(n, f"o{n}") for n in range(random.randint(1, 6))])
    live |= {(0, 0, n): row for n, row in enumerate(rows)}
    made: list[tuple[int, list[Event]]] = []
    for txn in range(1, random.randint(3, 8)):
        events: list[Event] = []
        for key in random.sample(sorted(live), min(len(live), random.randint(0, 4))):
            if random.random() < 0.6:
                row = (live[key][0], f"{live[key][1]}+{txn}")
                events.append((1, *key, txn, row))
                live[key] = row
            else:
                events.append((2, *key, txn, None))
                del live[key]
        for n in range(random.randint(0, 3)):
            live[txn, 0, n] = (100 * txn + n, f"i{txn}")
            events.append((0, txn, 0, n, txn, live[txn, 0, n]))
        made.append((txn, sorted(events, key=lambda event: (event[1:4], -event[4]))))
    joined = made[: random.randint(0, 2)]
    if len(joined) > 1:  # a minor compaction of Hive 1 keeps all events
        both = sorted((e for _, events in joined for e in events), key=lambda event: (event[1:4], -event[4]))
        write_events(location / f"delta_{joined[0][0]:07}_{joined[-1][0]:07}/bucket_00000", names, both)
        made = made[len(joined) :]
    for txn, events in made:
        if events:
            write_events(location / f"delta_{txn:07}_{txn:07}/bucket_00000", names, events)
    return list(live.values())


def test_streamed_files_are_read_as_far_as_they_were_flushed(acid: AcidSession, tmp_path: Path) -> None:
    """Side files that are exact, short, torn, empty, 0 or missing; open and aborted ids inside a range."""
    rows = {write_id: [(write_id * 10 + n,) for n in range(3)] for write_id in range(2, 6)}
    for bucket, (flushed, side) in enumerate(
        [
            (None, None),
            (0, b""),
            (0, b"\0" * 8),
            (0, b"\xff" * 8),
            (1, b""),
            (1, b"\0\0\0"),
        ]
    ):
        path = tmp_path / f"t/delta_2_5/bucket_{bucket:05}"
        events = [
            (0, w, PROPERTY | bucket << 16, n, w, (bucket * 1000 + row[0],))
            for w, some in rows.items()
            for n, row in enumerate(some)
        ]
        write_events(path, "k:int", events)
        if flushed is None:
            continue
        size = path.stat().st_size
        if flushed:  # more was written behind what was flushed
            path.write_bytes(path.read_bytes() + b"\x0eORC and no footer")
        head = size.to_bytes(8, "big") if flushed else b""
        path.with_name(path.name + "_flush_length").write_bytes(head + side)
    adopt(acid, tmp_path / "t", "streamed", "k INT", ids="5:4:4:3")
    seen = [(bucket * 1000 + w * 10 + n,) for bucket in (0, 4, 5) for w in (2, 5) for n in range(3)]
    assert values(acid, "SELECT k FROM streamed") == sorted(seen, key=repr)
    files = acid.sql("SELECT DISTINCT INPUT__FILE__NAME AS f FROM streamed").collect()
    assert {row["f"].rpartition("/")[2] for row in files} == {"bucket_00000", "bucket_00004", "bucket_00005"}
    acid.sql("DELETE FROM streamed WHERE k IN (4020, 5051)")
    left = sorted((row for row in seen if row[0] not in (4020, 5051)), key=repr)
    assert values(acid, "SELECT k FROM streamed") == left
    path = tmp_path / "t/delta_2_5/bucket_00001"
    path.with_name(path.name + "_flush_length").write_bytes((10**6).to_bytes(8, "big"))
    with pytest.raises(BadFileError, match="bucket_00001"):
        acid.sql("SELECT k FROM streamed")


def test_foreign_files_are_passed_over_and_named_once(
    acid: AcidSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_inserts(tmp_path / "t/delta_1_1_0/bucket_00000", "k:int", 1, [(1,)])
    write_flat(tmp_path / "t/sub/000000_0", "k:int", [(2,), (3,)])
    for name in (
        "delta_1_1_0/part-0.orc",
        "delta_1_1_0/_tmp",
        "notes/readme.txt",
        ".hive-staging_1/x",
        "_SUCCESS",
    ):
        (tmp_path / "t" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / name).write_text("nothing")
    adopt(acid, tmp_path / "t", "visited", "k INT")
    with caplog.at_level("WARNING", logger="hiveacid"), acid.transaction() as transaction:
        assert values(transaction, "SELECT k FROM visited") == [(1,), (2,), (3,)]
        assert values(transaction, "SELECT max(k) FROM visited") == [(3,)]
    (record,) = [r.getMessage() for r in caplog.records if "visited" in r.getMessage()]
    assert "delta_1_1_0/part-0.orc" in record
    assert "notes" in record
    assert "staging" not in record
