"""Tags: a named state keeps its rows through compactions, overwrites and cleanings, and only until DROP TAG or its time."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.snapshot.check_findings import Severity
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    CompactionRefusedError,
    ConfigError,
    NotEnoughHistoryError,
    ParseError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

KINDS = {
    "full": "'transactional'='true'",
    "only": "'transactional'='true', 'transactional_properties'='insert_only'",
}
Rows = Counter[tuple[object, ...]]


def rows_of(frame: DataFrame) -> Rows:
    return Counter((row.id, row.v, row.p) for row in frame.collect())


def create(acid: AcidSession, kind: str) -> None:
    acid.sql(
        f"CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC TBLPROPERTIES ({KINDS[kind]})"
    )


def step(number: int, kind: str, choice: random.Random) -> str:
    p = choice.choice("ab")
    texts = [
        f"INSERT INTO t VALUES ({number}, 'i', '{p}'), ({number + 100}, 'j', '{choice.choice('ab')}')",
        f"INSERT OVERWRITE TABLE t PARTITION (p = '{p}') VALUES ({number}, 'o')",
        "TRUNCATE TABLE t",
        f"ALTER TABLE t PARTITION (p = '{p}') COMPACT 'minor' AND WAIT",
        f"ALTER TABLE t PARTITION (p = '{p}') COMPACT 'major' AND WAIT",
        f"UPDATE t SET v = 'u{number}' WHERE id % 2 = {number % 2}",
        f"DELETE FROM t WHERE p = '{p}' AND id % 3 = 0",
    ]
    return choice.choices(texts, [5, 1, 1, 3, 2, 4 * (kind == "full"), 3 * (kind == "full")])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_tags_of_a_random_history_keep_their_rows(acid: AcidSession, kind: str) -> None:
    choice = random.Random(f"tags {kind}")
    create(acid, kind)
    acid.sql("ALTER TABLE t ADD PARTITION (p = 'a') PARTITION (p = 'b')")
    t, tagged = acid.table("t"), dict[str, Rows]()
    for number in range(1, 26):
        with suppress(CompactionRefusedError):  # nothing to compact
            acid.sql(step(number, kind, choice))
        if number % 4 == 0:
            acid.sql(f"ALTER TABLE t CREATE TAG Tag_{number}")
            tagged[f"tag_{number}"] = rows_of(t.to_df())
        if number % 3 == 0:
            acid.clean()
    acid.clean()
    assert {name: rows_of(t.as_of(tag=name).to_df()) for name in tagged} == tagged
    assert not [finding for finding in t.inspect.check() if finding.severity is Severity.DAMAGE]
    middle = "tag_12"
    assert rows_of(acid.sql(f"SELECT * FROM t VERSION AS OF '{middle.upper()}'")) == tagged[middle]
    assert rows_of(acid.sql(f"SELECT * FROM t FOR SYSTEM_VERSION AS OF '{middle}'")) == tagged[middle]
    acid.sql(f"RESTORE TABLE t TO VERSION AS OF '{middle}'")
    assert rows_of(t.to_df()) == tagged[middle]


def test_files_that_only_a_tag_kept_go_with_it(acid: AcidSession) -> None:
    create(acid, "full")
    acid.sql("INSERT INTO t VALUES (1, 'x', 'a')")
    acid.sql("ALTER TABLE t CREATE TAG first")
    acid.sql("DELETE FROM t")
    acid.sql("ALTER TABLE t PARTITION (p = 'a') COMPACT 'major' AND WAIT")
    t = acid.table("t")
    acid.clean()
    directories = {row.directory for row in t.inspect.deltas().collect()}
    assert "delta_0000001_0000001_0000" in directories
    assert not any(name.startswith("delete_delta") for name in directories)
    with pytest.raises(NotEnoughHistoryError):
        t.as_of(write_id=1).to_df().collect()
    assert rows_of(t.as_of(tag="first").to_df()) == Counter([(1, "x", "a")])
    acid.sql("ALTER TABLE t DROP TAG first")
    assert any("delta_0000001" in path for path in acid.clean())
    with pytest.raises(NotEnoughHistoryError, match="tag 'first': there is no such tag"):
        t.as_of(tag="first").to_df()


def test_a_tag_ends_with_its_time_and_may_name_a_past_state(acid: AcidSession) -> None:
    create(acid, "full")
    acid.sql("INSERT INTO t VALUES (1, 'x', 'a')")
    acid.sql("INSERT INTO t VALUES (2, 'y', 'a')")
    between = acid.sql("SELECT committed_at FROM t.history WHERE write_id = 1").collect()[0][0]
    t = acid.table("t")
    acid.sql("ALTER TABLE t CREATE TAG one FOR SYSTEM_VERSION AS OF 1 RETAIN 2 DAYS")
    acid.sql("ALTER TABLE t CREATE TAG IF NOT EXISTS one AS OF VERSION 2")
    acid.sql(f"ALTER TABLE t CREATE TAG moment FOR SYSTEM_TIME AS OF '{between}' RETAIN 90 MINUTES")
    acid.sql("ALTER TABLE t CREATE TAG copy FOR TAG AS OF one")
    t.create_tag("short", retain=0)
    first = Counter([(1, "x", "a")])
    assert [rows_of(t.as_of(tag=name).to_df()) for name in ("one", "moment", "copy")] == [first] * 3
    with pytest.raises(NotEnoughHistoryError, match="tag 'short': it was kept until"):
        t.as_of(tag="short").to_df()
    acid.sql("ALTER TABLE t CREATE OR REPLACE TAG one")
    assert rows_of(t.as_of(tag="one").to_df()) == rows_of(t.to_df())
    acid.sql("ALTER TABLE t RENAME TO u")
    u = acid.table("u")
    assert rows_of(u.as_of(tag="copy").to_df()) == first
    u.restore(tag="copy")
    assert rows_of(u.to_df()) == first


def test_a_tag_of_an_adopted_table_keeps_its_rows(acid: AcidSession, tmp_path: Path) -> None:
    """Whether another engine's cleaner took files away before the adoption is asked when the tag is made, not when it is read."""
    create(acid, "full")
    acid.sql("INSERT INTO t VALUES (1, 'x', 'a')")
    copytree(acid.table("t").definition.location, tmp_path / "copy")
    ddl = f"CREATE TABLE u (id INT, v STRING) PARTITIONED BY (p STRING) STORED AS ORC TBLPROPERTIES ({KINDS['full']})"
    acid.adopt(ddl, str(tmp_path / "copy"), "default.u:1:9223372036854775807::")
    u = acid.table("u")
    u.create_tag("first")
    acid.sql("INSERT INTO u VALUES (2, 'y', 'a')")
    acid.sql("ALTER TABLE u PARTITION (p = 'a') COMPACT 'major' AND WAIT")
    acid.clean()
    assert rows_of(u.as_of(tag="first").to_df()) == Counter([(1, "x", "a")])
    u.create_tag("second")
    acid.sql("INSERT INTO u VALUES (3, 'z', 'a')")
    with pytest.raises(NotEnoughHistoryError):
        acid.sql("ALTER TABLE u CREATE TAG past FOR SYSTEM_VERSION AS OF 1")
    acid.sql("ALTER TABLE u CREATE TAG past FOR SYSTEM_VERSION AS OF 2")
    assert rows_of(u.as_of(tag="past").to_df()) == rows_of(u.as_of(tag="second").to_df())


def test_what_tags_refuse(acid: AcidSession) -> None:
    create(acid, "full")
    acid.sql("INSERT INTO t VALUES (1, 'x', 'a')")
    t = acid.table("t")
    t.create_tag("kept")
    refused: list[tuple[str, type[Exception], str]] = [
        ("ALTER TABLE t CREATE TAG KEPT", AlreadyExistsError, "CREATE OR REPLACE TAG"),
        ("ALTER TABLE t CREATE TAG `12`", ConfigError, "not only digits"),
        ("ALTER TABLE t CREATE TAG `it's`", ConfigError, "no name of a tag"),
        ("ALTER TABLE t CREATE TAG x FOR SYSTEM_VERSION AS OF 9", ConfigError, "not between 0 and 1"),
        ("ALTER TABLE t CREATE TAG x RETAIN 2 WEEKS", ParseError, "DAYS or HOURS or MINUTES"),
        ("ALTER TABLE t CREATE BRANCH b", ParseError, "branches"),
        ("ALTER TABLE t DROP TAG other", NotEnoughHistoryError, "there is no such tag"),
        ("ALTER TABLE t DROP PARTITION (p = 'a')", UnsupportedFeatureError, "DROP TAG kept"),
        (
            "ALTER TABLE t PARTITION (p = 'a') RENAME TO PARTITION (p = 'b')",
            UnsupportedFeatureError,
            "DROP TAG",
        ),
        ("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.tags'='{}')", CatalogError, "hiveacid.tags"),
        ("SELECT * FROM t VERSION AS OF 'kep'", NotEnoughHistoryError, "did you mean kept"),
    ]
    for text, kind, words in refused:
        with pytest.raises(kind, match=words):
            acid.sql(text)
    with pytest.raises(ConfigError, match="changes"):
        t.as_of(tag="kept").changes(0)
    acid.sql("CREATE TABLE plain (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    with pytest.raises(UnsupportedFeatureError, match="not transactional"):
        acid.sql("ALTER TABLE plain CREATE TAG x")
    acid.sql("CREATE TABLE like_t LIKE t")
    with pytest.raises(NotEnoughHistoryError):
        acid.sql("SELECT * FROM like_t VERSION AS OF 'kept'")
    acid.sql("ALTER TABLE t DROP TAG IF EXISTS other")
    acid.sql("ALTER TABLE t DROP TAG kept")
    acid.sql("ALTER TABLE t DROP PARTITION (p = 'a')")


def test_tags_in_a_native_session(native: NativeSession) -> None:
    create_text = "CREATE TABLE n (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    for text in (
        create_text,
        "INSERT INTO n VALUES (1)",
        "ALTER TABLE n CREATE TAG first",
        "INSERT INTO n VALUES (2)",
    ):
        native.sql(text)
    with pytest.raises(UnsupportedFeatureError, match="DROP TAG first"):
        native.sql("SELECT 3 AS other").writeTo("n").createOrReplace()
    assert [row.id for row in native.sql("SELECT id FROM n VERSION AS OF 'first'").collect()] == [1]
