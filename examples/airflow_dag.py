"""An Airflow DAG that loads orders into a transactional table and merges totals, by Airflow's hook for HiveServer2.

    pip install apache-airflow apache-airflow-providers-apache-hive
    hiveacid serve -w wh
    export AIRFLOW_CONN_HIVESERVER2_DEFAULT='hiveserver2://airflow@localhost:10000/default'
    cp examples/airflow_dag.py "$AIRFLOW_HOME/dags"

Each task is one connection. A statement that fails has changed nothing, and a write conflict (SQLSTATE 40001) is over
when the task is repeated: therefore `retries`. `load` may be repeated, too: it replaces the rows of its day.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.apache.hive.hooks.hive import HiveServer2Hook
from airflow.sdk import dag, task

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INT, customer STRING, amount INT) PARTITIONED BY (day DATE)
STORED AS ORC TBLPROPERTIES ('transactional'='true');
CREATE TABLE IF NOT EXISTS totals (customer STRING, amount BIGINT)
STORED AS ORC TBLPROPERTIES ('transactional'='true')
"""
ORDERS = "(1, 'ann', 10), (2, 'bob', 20), (3, 'ann', 30)"


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
)
def hiveacid_orders() -> None:
    """Create the tables, load a day, merge the totals, read them."""

    @task
    def create() -> None:
        HiveServer2Hook().run(TABLES.strip().split(";"))

    @task
    def load(day: str) -> None:
        HiveServer2Hook().run(f"INSERT OVERWRITE TABLE orders PARTITION (day='{day}') VALUES {ORDERS}")

    @task
    def merge() -> None:
        HiveServer2Hook().run(
            "MERGE INTO totals t USING (SELECT customer, sum(amount) AS amount FROM orders GROUP BY customer) s "
            "ON t.customer = s.customer "
            "WHEN MATCHED THEN UPDATE SET amount = s.amount WHEN NOT MATCHED THEN INSERT VALUES (s.customer, s.amount)"
        )

    @task
    def report() -> None:
        for customer, amount in HiveServer2Hook().get_records("SELECT * FROM totals ORDER BY customer"):
            print(f"{customer}: {amount}")

    create() >> load("2026-01-01") >> merge() >> report()


hiveacid_orders()
