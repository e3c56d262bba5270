"""Files have the codec that the table, or else the session, asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import orc, parquet

from hiveacid.config import setting_definitions
from hiveacid.errors import ConfigError, UnsupportedFeatureError
from hiveacid.orc.tail import read_tail

if TYPE_CHECKING:
    from hiveacid import AcidSession

CREATE = "CREATE TABLE {} (id INT, v STRING) STORED AS {} TBLPROPERTIES ('transactional'='true'{})"
INSERT = "INSERT INTO {} SELECT CAST(id AS INT), repeat('x', 100) FROM range(100)"
INSERT_ONLY = ", 'transactional_properties'='insert_only'"


def codecs(acid: AcidSession, table: str) -> set[str]:
    """Return the codecs of all data files of a table, in upper case."""
    home = Path(acid.table(table).definition.location)
    files = [
        path
        for path in home.rglob("*")
        if path.is_file() and not any(part[0] in "._" for part in path.relative_to(home).parts)
    ]
    if "parquet" in table:
        return {parquet.ParquetFile(path).metadata.row_group(0).column(0).compression for path in files}
    return {str(orc.ORCFile(path).compression).upper() for path in files}


def test_the_table_or_the_session_says(acid: AcidSession) -> None:
    acid.sql(CREATE.format("t", "ORC", ", 'orc.compress'='snappy'"))
    acid.sql(INSERT.format("t"))
    acid.sql("UPDATE t SET v = 'y' WHERE id = 3")
    acid.sql("DELETE FROM t WHERE id = 4")
    assert codecs(acid, "t") == {"SNAPPY"}
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('orc.compress'='ZSTD')")
    acid.sql(INSERT.format("t"))
    assert codecs(acid, "t") == {"SNAPPY", "ZSTD"}
    for kind in ("minor", "major"):
        acid.table("t").compact(kind)
        acid.clean()
        assert codecs(acid, "t") == {"ZSTD"}, kind
    assert acid.table("t").to_df().where("length(v) = 100").count() == 198
    acid.sql(CREATE.format("plain_t", "ORC", INSERT_ONLY))
    acid.sql(INSERT.format("plain_t"))
    assert codecs(acid, "plain_t") == {"ZSTD"}
    acid.set(setting_definitions.ORC_COMPRESS.name, "LZ4")
    acid.sql(INSERT.format("plain_t"))
    assert codecs(acid, "plain_t") == {"ZSTD", "LZ4"}
    acid.sql(CREATE.format("parquet_t", "PARQUET", INSERT_ONLY + ", 'parquet.compression'='GZIP'"))
    acid.sql(INSERT.format("parquet_t"))
    assert codecs(acid, "parquet_t") == {"GZIP"}


@pytest.mark.parametrize(("level", "codec"), [("hive4", "ZSTD"), ("hive3", "ZLIB")])
def test_the_default_is_the_best_codec_that_the_hive_of_the_level_reads(
    acid: AcidSession, level: str, codec: str
) -> None:
    acid.sql(CREATE.format("t", "ORC", f", 'hiveacid.layout.level'='{level}'"))
    acid.sql("INSERT INTO t VALUES (1000, 'written by the driver')")
    acid.sql(INSERT.format("t"))
    acid.sql("UPDATE t SET v = 'y' WHERE id IN (3, 1000)")
    acid.sql(
        "MERGE INTO t USING (VALUES (5, 'm')) s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    assert codecs(acid, "t") == {codec}
    acid.table("t").compact("major")
    acid.clean()
    assert codecs(acid, "t") == {codec}
    assert acid.table("t").to_df().where("v IN ('y', 'm')").count() == 3


def test_files_of_several_codecs_are_read_and_compacted(acid: AcidSession) -> None:
    acid.sql(CREATE.format("t", "ORC", ""))
    for codec in ("ZLIB", "SNAPPY", "AUTO"):
        acid.set(setting_definitions.ORC_COMPRESS.name, codec)
        acid.sql(INSERT.format("t"))
        acid.sql("DELETE FROM t WHERE id % 10 = 3")
    rows = acid.table("t").to_df().count()
    assert rows == 270
    for kind in ("minor", "major"):
        acid.table("t").compact(kind)
        acid.clean()
        assert codecs(acid, "t") == {"ZSTD"}, kind
        assert acid.table("t").to_df().count() == rows


def stripes(acid: AcidSession, directory: str) -> tuple[int, bool]:
    """Return the row index stride of the one data file of t's directory, and whether it has several stripes."""
    (path,) = Path(acid.table("t").definition.location).glob(f"{directory}_*/[0b]*")
    tail = read_tail(acid.context.fs, str(path), path.stat().st_size)
    return tail.row_index_stride, len(tail.stripes) > 1


@pytest.mark.exhaustive("sizes only; the codecs stay")
@pytest.mark.parametrize("kind", ["", INSERT_ONLY], ids=["full ACID", "insert-only"])
def test_the_session_says_how_long_stripes_and_row_groups_are(acid: AcidSession, kind: str) -> None:
    acid.sql(CREATE.format("t", "ORC", kind))
    rows = "SELECT CAST(id AS INT), sha2(CAST(id AS STRING), 512) FROM range(0, 40000, 1, 1)"
    acid.sql(f"INSERT INTO t {rows}")
    assert stripes(acid, "delta") == (10_000, False)
    acid.sql("SET hive.exec.orc.default.stripe.size=256kb")
    acid.sql("SET hive.exec.orc.default.row.index.stride=2000")
    acid.sql(f"INSERT OVERWRITE TABLE t {rows}")
    assert stripes(acid, "base") == (2000, True)
    assert acid.table("t").to_df().distinct().count() == 40_000
    for refused in ("999", "-1"):
        with pytest.raises(ConfigError, match="must be 0 or at least 1000"):
            acid.sql(f"SET hive.exec.orc.default.row.index.stride={refused}")


def test_what_nobody_can_read_is_refused(acid: AcidSession) -> None:
    acid.sql(CREATE.format("t", "ORC", ""))
    made = acid.table("t").definition  # another engine may have given it such a codec
    acid.context.catalog.alter_table(made.name, made.with_properties({"orc.compress": "brotli"}))
    assert acid.table("t").to_df().count() == 0
    with pytest.raises(ConfigError, match=r"orc.compress is 'brotli', not one of ZLIB"):
        acid.sql(INSERT.format("t"))
    of_hive3 = "'orc.compress'='ZSTD', 'hiveacid.layout.level'='hive3'"
    made = acid.table("t").definition
    acid.context.catalog.alter_table(made.name, made.with_properties({"orc.compress": "ZLIB"}))
    for statement in (
        f"ALTER TABLE t SET TBLPROPERTIES ({of_hive3})",
        CREATE.format("other", "ORC", f", {of_hive3}"),
        CREATE.format("other", "ORC", f", 'transactional_properties'='insert_only', {of_hive3}"),
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"Hive 3.1 cannot read ORC files with ZSTD"):
            acid.sql(statement)
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('hiveacid.layout.level'='hive3')")
    with pytest.raises(UnsupportedFeatureError, match=r"Hive 3.1 cannot read ORC files with ZSTD"):
        acid.sql("ALTER TABLE t SET TBLPROPERTIES ('orc.compress'='zstd')")
    acid.sql(INSERT.format("t"))
    assert codecs(acid, "t") == {"ZLIB"}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("orc.compress", "banana", "expected one of ZLIB, NONE"),
        ("ORC.Compress", "", "expected one of ZLIB, NONE"),
        ("parquet.compression", "'; DROP", "expected one of UNCOMPRESSED"),
        ("hiveacid.layout.level", "hive5", "expected one of hive4, hive3"),
        ("hiveacid.history.retention", "-1d", "expected a duration"),
        ("no_cleanup", "yes", "expected true or false"),
        ("hiveacid.compactor.priority", "high", "expected a whole number"),
        ("compactorthreshold.hive.compactor.delta.num.threshold", "many", "expected a whole number"),
    ],
)
def test_a_bad_value_of_a_property_is_refused_before_anything_is_written(
    acid: AcidSession, name: str, value: str, reason: str
) -> None:
    quoted = value.replace("'", "\\'")
    with pytest.raises(ConfigError, match=f"default.t: property {name}: .*{reason}"):
        acid.sql(CREATE.format("t", "ORC", f", '{name}'='{quoted}'"))
    assert acid.sql("SHOW TABLES").collect() == []
    assert not Path(acid.context.warehouse, "t").exists()
    acid.sql(CREATE.format("t", "ORC", ", 'orc.compress'=' Zstd ', 'orc.stripe.size'='-5'"))
    with pytest.raises(ConfigError, match=f"default.t: property {name}: .*{reason}"):
        acid.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{name}'='{quoted}', 'k'='v')")
    assert acid.table("t").definition.property("k") is None
    acid.sql(INSERT.format("t"))
    assert codecs(acid, "t") == {"ZSTD"}
