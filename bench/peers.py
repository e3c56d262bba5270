r"""Those that are measured side by side in one session: flat ORC, hiveacid, Delta Lake, Iceberg, and Hudi.

The others' jars come from Maven Central (``install``), once, into the user's cache. Each keeps its own defaults but for
what makes it write changes beside the data rather than anew: deletion vectors, merge-on-read. Hudi and Delta Lake both
want Spark's own catalog, and Hudi has a build for Spark 3.5: it has a process of its own::

    make .venv-bench/stamp .venv-spark-3.5/stamp
    PYTHONPATH="src:$(echo .venv-spark-3.5/lib/python*/site-packages)" .venv-bench/bin/python bench/run.py \
        --peers Hudi,Iceberg --sections cases --rows 2000000 --runs 3 --results bench/results/hudi
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import hiveacid
from hiveacid import AcidSession

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_JARS = {  # by Spark version; what has no build for one is left out
    "3.5": {
        "Delta": ("io.delta:delta-spark_2.12:3.3.2", "io.delta:delta-storage:3.3.2"),
        "Iceberg": ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",),
        "Hudi": ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.1.1",),
    },
    "4.1": {
        "Delta": ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
        "Iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    },
}


class Peer(Protocol):
    """One way to keep a table."""

    name: str

    def create(
        self,
        table: str,
        columns: str,
        partition: str | None = None,
        buckets: tuple[str, int] | None = None,
    ) -> None:
        """Make an empty table, partitioned by its last column if ``partition`` names it, bucketed if it can be."""

    def sql(self, text: str, table: str) -> DataFrame:
        """Run a statement; ``{t}`` in it is the table."""

    def insert(self, table: str, rows: DataFrame) -> None:
        """Append rows."""

    def overwrite(self, table: str, rows: DataFrame, partition: str, value: int) -> None:
        """Replace the rows of one partition."""

    def delete_listed(self, table: str, column: str, listed: str) -> None:
        """Delete the rows whose key is in a view of one column, of the same name."""

    def compact(self, table: str) -> None:
        """Join what changes left, as whoever uses it would."""


@dataclass
class Flat:
    """Plain Spark on ORC files, without any safety: the limit."""

    spark: SparkSession
    root: Path
    name: str = "flat"
    partitions: dict[str, str | None] = field(default_factory=dict)

    def create(
        self,
        table: str,
        columns: str,  # noqa: ARG002
        partition: str | None = None,
        buckets: tuple[str, int] | None = None,  # noqa: ARG002
    ) -> None:
        """Note how the directory will be laid out."""
        self.partitions[table] = partition

    def sql(self, text: str, table: str) -> DataFrame:
        """Run a query on the files."""
        return self.spark.sql(text.format(t=f"orc.`{self.root / table}`"))

    def insert(self, table: str, rows: DataFrame) -> None:
        """Write files."""
        partition = self.partitions[table]
        writer = rows.write.mode("append").option("compression", "zstd")
        (writer.partitionBy(partition) if partition else writer).orc(str(self.root / table))

    def overwrite(self, table: str, rows: DataFrame, partition: str, value: int) -> None:
        """Replace a directory."""
        home = self.root / table / f"{partition}={value}"
        rows.drop(partition).write.mode("overwrite").option("compression", "zstd").orc(str(home))

    def delete_listed(self, table: str, column: str, listed: str) -> None:
        """Raise NotImplementedError: plain files have no such thing."""
        raise NotImplementedError

    def compact(self, table: str) -> None:
        """Leave the files as they are."""


@dataclass
class Ours:
    """This project, on SQLite and local files."""

    acid: AcidSession
    name: str = "hiveacid"

    def create(
        self,
        table: str,
        columns: str,
        partition: str | None = None,
        buckets: tuple[str, int] | None = None,
    ) -> None:
        """Create a full ACID table."""
        clustered = f"CLUSTERED BY ({buckets[0]}) INTO {buckets[1]} BUCKETS" if buckets else ""
        self.acid.sql(
            f"CREATE TABLE {table} ({_without(columns, partition)}) {_by(columns, partition)} {clustered} STORED AS ORC "
            "TBLPROPERTIES ('transactional'='true')"
        )

    def sql(self, text: str, table: str) -> DataFrame:
        """Run a statement."""
        return self.acid.sql(text.format(t=table))

    def insert(self, table: str, rows: DataFrame) -> None:
        """Append rows."""
        self.acid.table(table).insert(rows)

    def overwrite(self, table: str, rows: DataFrame, partition: str, value: int) -> None:
        """Replace the rows of one partition."""
        self.acid.table(table).overwrite(rows.drop(partition), partition={partition: value})

    def delete_listed(self, table: str, column: str, listed: str) -> None:
        """Delete by a subquery."""
        self.acid.sql(f"DELETE FROM {table} WHERE {column} IN (SELECT {column} FROM {listed})")

    def compact(self, table: str) -> None:
        """Compact every partition, and remove what that replaced."""
        self.acid.table(table).compact("major")
        self.acid.clean(table)


@dataclass
class Catalogued:
    """Delta Lake or Iceberg, in a catalog of its own."""

    spark: SparkSession
    name: str
    catalog: str
    create_as: str

    def _of(self, table: str) -> str:
        return f"{self.catalog}.{table}"

    def create(
        self,
        table: str,
        columns: str,
        partition: str | None = None,
        buckets: tuple[str, int] | None = None,
    ) -> None:
        """Create a table that writes changes beside the data. Iceberg's buckets are partitions; Delta has none."""
        parts = [partition] if partition else []
        if buckets and self.name == "Iceberg":
            parts.append(f"bucket({buckets[1]}, {buckets[0]})")
        by = f"PARTITIONED BY ({', '.join(parts)})" if parts else ""
        self.spark.sql(f"CREATE TABLE {self._of(table)} ({columns}) {self.create_as.format(by=by)}")

    def sql(self, text: str, table: str) -> DataFrame:
        """Run a statement."""
        return self.spark.sql(text.format(t=self._of(table)))

    def insert(self, table: str, rows: DataFrame) -> None:
        """Append rows."""
        rows.writeTo(self._of(table)).append()

    def overwrite(self, table: str, rows: DataFrame, partition: str, value: int) -> None:
        """Replace the rows of one partition."""
        rows.writeTo(self._of(table)).overwrite(F.col(partition) == value)

    def delete_listed(self, table: str, column: str, listed: str) -> None:
        """Delete by a subquery; by a MERGE in Delta Lake, which refuses that."""
        text = f"DELETE FROM {{t}} WHERE {column} IN (SELECT {column} FROM {listed})"
        if self.name == "Delta":
            text = f"MERGE INTO {{t}} t USING {listed} s ON t.{column} = s.{column} WHEN MATCHED THEN DELETE"
        self.sql(text, table)

    def compact(self, table: str) -> None:
        """Rewrite small files and those with deletes."""
        if self.name == "Delta":
            self.spark.sql(f"OPTIMIZE {self._of(table)}")
            return
        catalog, _, rest = self._of(table).partition(".")
        options = "map('delete-file-threshold', '1', 'min-input-files', '2')"
        self.spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{rest}', options => {options})")


@dataclass
class Hudi(Catalogued):
    """Apache Hudi, merge-on-read. A table with a column ``k`` has it as its record key; others get generated keys.

    Version 1.1.1 fails in MERGE of a partitioned table with decimals (ClassCastException): the hourly mix has no figures.
    """

    name: str = "Hudi"
    catalog: str = "hudi_bench"
    create_as: str = "USING hudi {by} TBLPROPERTIES (type = 'mor'{key})"

    def create(
        self,
        table: str,
        columns: str,
        partition: str | None = None,
        buckets: tuple[str, int] | None = None,  # noqa: ARG002 - its bucket index is for keyed tables of fixed size
    ) -> None:
        """Create a table that writes changes beside the data."""
        key = ", primaryKey = 'k'" if columns.startswith("k ") else ""
        by = f"PARTITIONED BY ({partition})" if partition else ""
        self.spark.sql(f"CREATE TABLE {self._of(table)} ({columns}) {self.create_as.format(by=by, key=key)}")

    def insert(self, table: str, rows: DataFrame) -> None:
        """Append rows."""
        rows.createOrReplaceTempView("hudi_rows")
        self.spark.sql(f"INSERT INTO {self._of(table)} SELECT * FROM hudi_rows")

    def overwrite(self, table: str, rows: DataFrame, partition: str, value: int) -> None:
        """Replace the rows of one partition."""
        rows.drop(partition).createOrReplaceTempView("hudi_rows")
        into = f"{self._of(table)} PARTITION ({partition} = {value})"
        self.spark.sql(f"INSERT OVERWRITE {into} SELECT * FROM hudi_rows")

    def compact(self, table: str) -> None:
        """Merge the log files into the base files."""
        self.spark.sql(f"CALL run_compaction(op => 'scheduleAndExecute', table => '{self._of(table)}')")


def _without(columns: str, partition: str | None) -> str:
    return ", ".join(one for one in columns.split(", ") if partition is None or one.split()[0] != partition)


def _by(columns: str, partition: str | None) -> str:
    if partition is None:
        return ""
    (one,) = (one for one in columns.split(", ") if one.split()[0] == partition)
    return f"PARTITIONED BY ({one})"


def version() -> str:
    """Return Spark's version as it is said in ``_JARS``."""
    return ".".join(pyspark.__version__.split(".")[:2])


def install(names: Sequence[str]) -> list[Path]:
    """Fetch the jars of the others that run on this Spark, those named. Needs Maven; raises what it raises."""
    home = Path(os.environ.get("HIVEACID_BENCH_JARS") or Path.home() / ".cache" / "hiveacid-bench")
    home.mkdir(parents=True, exist_ok=True)
    found = []
    for name, coordinates in _JARS.get(version(), {}).items():
        for one in coordinates if name in names else ():
            _, artifact, number = one.split(":")
            jar = home / f"{artifact}-{number}.jar"
            if not jar.exists():
                maven = shutil.which("mvn")
                if maven is None:
                    raise SystemExit(
                        f"{name} is fetched by Maven: install it (mvn), or leave it out by --peers"
                    )
                subprocess.run(
                    [maven, "-q", "-B", _PLUGIN, f"-Dartifact={one}:jar", f"-DoutputDirectory={home}"],
                    check=True,
                )
            found.append(jar)
    return found


def available(names: Sequence[str]) -> list[str]:
    """Return those of the names that run on this Spark."""
    return [name for name in names if name in _JARS.get(version(), {})]


def session(
    jars: Sequence[Path],
    scratch: Path,
    names: Sequence[str],
    memory: str,
    master: str = "local[2]",
    worker_memory: str = "3g",
) -> SparkSession:
    """Return one session in which all of them work; ``memory``: of the driver."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    extensions = []
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": worker_memory,
        "spark.sql.shuffle.partitions": "4",
        "spark.scheduler.mode": "FAIR",  # beside others' jobs a reader gets its share
        "spark.sql.orc.compression.codec": "zstd",
        "spark.sql.warehouse.dir": str(scratch / "spark"),
    }
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    if "Delta" in names:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.databricks.delta.properties.defaults.enableDeletionVectors"] = "true"
    if "Iceberg" in names:
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        settings["spark.sql.catalog.ice"] = "org.apache.iceberg.spark.SparkCatalog"
        settings["spark.sql.catalog.ice.type"] = "hadoop"
        settings["spark.sql.catalog.ice.warehouse"] = str(scratch / "iceberg")
    if "Hudi" in names:
        extensions.append("org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
        settings["spark.serializer"] = "org.apache.spark.serializer.KryoSerializer"
        settings["spark.kryo.registrator"] = "org.apache.spark.HoodieSparkKryoRegistrar"
    if extensions:
        settings["spark.sql.extensions"] = ",".join(extensions)
    builder = hiveacid.configure(SparkSession.builder.master(master).appName("hiveacid bench"))
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    return spark


def others(spark: SparkSession, names: Sequence[str]) -> list[Peer]:
    """Return the peers that have a catalog."""
    found: list[Peer] = []
    if "Delta" in names:
        spark.sql("CREATE DATABASE IF NOT EXISTS delta_bench")
        found.append(Catalogued(spark, "Delta", "spark_catalog.delta_bench", "USING delta {by}"))
    if "Iceberg" in names:
        spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.bench")
        modes = ", ".join(f"'write.{verb}.mode'='merge-on-read'" for verb in ("delete", "update", "merge"))
        how = f"USING iceberg {{by}} TBLPROPERTIES ('format-version'='3', {modes})"
        found.append(Catalogued(spark, "Iceberg", "ice.bench", how))
    if "Hudi" in names:
        spark.sql("CREATE DATABASE IF NOT EXISTS hudi_bench")
        found.append(Hudi(spark))
    return found
