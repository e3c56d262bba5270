"""Run dbt in one process with Spark and hiveacid, without a server: the target `session` of profiles.yml.

    pip install 'hiveacid[spark]' dbt-core==1.10.* dbt-spark==1.9.*
    cd examples/dbt && python session.py build --target session --profiles-dir .

dbt-spark asks for the session of its process. This program makes it a native one before dbt starts; HIVEACID_WAREHOUSE
names the directory of the tables.
"""

from __future__ import annotations

import os
import sys

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

import hiveacid


def main() -> int:
    """Run dbt with the arguments of the command line; return its exit code."""
    builder = SparkSession.builder.master("local[*]").config("spark.ui.showConsoleProgress", "false")
    warehouse = os.environ.get("HIVEACID_WAREHOUSE", "wh")
    spark = hiveacid.configure(builder, native=True, warehouse=warehouse).getOrCreate()
    try:
        return 0 if dbtRunner().invoke(sys.argv[1:]).success else 1
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
