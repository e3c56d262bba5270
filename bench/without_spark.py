"""Reading without Spark: Arrow tables of three and of all columns, beside pyarrow's own reader and peers on Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pyarrow.parquet
from pyarrow import orc
from reading import FILES, Reading
from results import Result
from sales import SALES, sales

import hiveacid

THREE = ["ss_quantity", "ss_sales_price", "ss_net_profit"]
PYARROW = "pyarrow.orc"
_CLEAN, _DELETED = 1.15, 1.3

Read = Callable[[Sequence[str] | None], object]


def measured(scene: Reading) -> Iterator[Result]:
    """Yield the results on a base and with one row of a hundred deleted.

    Ours and pyarrow read the same files; pyarrow returns deleted rows, too. The others read the rows before the deletes.
    """
    spark, acid = scene.meter.spark, scene.ours.acid
    for peer in (scene.ours, scene.flat):
        peer.create("arrow", SALES)
        peer.insert("arrow", sales(spark, 0, scene.rows, FILES))
    home = Path(acid.context.warehouse, "arrow")
    files = [str(path) for path in sorted(home.glob("delta_*/bucket_*")) if not path.name.startswith(".")]
    parquet = scene.flat.root / "arrow-parquet"
    sales(spark, 0, scene.rows, FILES).write.parquet(str(parquet))
    others: dict[str, Read] = {"Spark on flat ORC": lambda columns: _by_spark(scene, columns)}
    others |= _peers(parquet, scene.flat.root)
    with hiveacid.open(acid.context.warehouse) as warehouse:
        table = warehouse.table("arrow")
        for case, aim in (("base", _CLEAN), (f"{scene.rows // 100:,} scattered deletes", _DELETED)):
            if aim == _DELETED:
                acid.sql("DELETE FROM arrow WHERE pmod(ss_ticket_number, 100) = 3")
            reads: dict[str, Read] = {
                "hiveacid": table.to_arrow,
                PYARROW: lambda columns: _by_pyarrow(files, columns),
            }
            if aim == _CLEAN:
                reads |= others
            for what, columns in (("3 columns", THREE), ("all columns", None)):
                actions = {
                    name: (lambda read=read, columns=columns: read(columns)) for name, read in reads.items()
                }
                yield Result("arrow", case, what, scene.meter.in_turn(actions, scene.runs), aim, PYARROW)


def _by_pyarrow(files: Sequence[str], columns: Sequence[str] | None) -> object:
    wanted = ["row"] if columns is None else [f"row.{name}" for name in columns]
    return [orc.ORCFile(file).read(columns=wanted) for file in files]


def _by_spark(scene: Reading, columns: Sequence[str] | None) -> object:
    frame = scene.flat.sql(f"SELECT {'*' if columns is None else ', '.join(columns)} FROM {{t}}", "arrow")
    return frame._jdf.queryExecution().toRdd().count()  # noqa: SLF001 - every row is decoded, none is fetched


def _peers(parquet: Path, root: Path) -> dict[str, Read]:
    """Return the reads of those peers whose packages are installed."""
    found: dict[str, Read] = {}
    if _installed("duckdb"):
        duckdb = import_module("duckdb")

        def by_duckdb(columns: Sequence[str] | None) -> object:
            names = "*" if columns is None else ", ".join(columns)
            return duckdb.sql(f"SELECT {names} FROM '{parquet}/*.parquet'").to_arrow_table()

        found["DuckDB on Parquet"] = by_duckdb
    rows = pyarrow.parquet.read_table(str(parquet))
    if _installed("deltalake"):
        deltalake = import_module("deltalake")
        home = str(root / "arrow-delta")
        deltalake.write_deltalake(home, rows)
        found["deltalake"] = lambda columns: deltalake.DeltaTable(home).to_pyarrow_table(
            columns=None if columns is None else [*columns]
        )
    if _installed("pyiceberg"):
        catalog = import_module("pyiceberg.catalog.sql").SqlCatalog(
            "bench", uri=f"sqlite:///{root}/iceberg.db", warehouse=f"file://{root}/arrow-iceberg"
        )
        catalog.create_namespace("bench")
        catalog.create_table("bench.sales", schema=rows.schema).append(rows)
        found["pyiceberg"] = lambda columns: (
            catalog.load_table("bench.sales").scan(selected_fields=tuple(columns or ["*"])).to_arrow()
        )
    return found


def _installed(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True
