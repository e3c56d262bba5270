"""Real clients of ``hiveacid serve``, of the versions in requirements/clients.txt: make clients. Writes docs/clients.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-clients/bin/python"
JARS = Path(pyspark.__file__).parent / "jars"
PATIENCE = 600.0  # seconds, on a machine that is busy
DBAPI = "CREATE, INSERT, UPDATE, transaction with ROLLBACK, 20,000 rows, errors"
STEPS = {
    "pyhive": ("PyHive", DBAPI),
    "impyla": ("impyla", DBAPI),
    "impyla_http": ("impyla over HTTP", DBAPI),
    "sqlalchemy": ("SQLAlchemy, by PyHive", "CREATE, INSERT, SELECT, columns of a table"),
    "beeline": (
        "beeline with Hive JDBC",
        "examples/beeline.md: statements, transaction with ROLLBACK, tables",
    ),
    "beeline_http": ("beeline over HTTP", "the same"),
    "dbt": ("dbt-spark, method thrift", "examples/dbt twice: seed, MERGE, snapshot, view, tests"),
}
HEAD = """# Clients

<!-- Written by make clients: do not edit. -->

Clients that `make clients` runs against `hiveacid serve` ([how to connect](serve.md#connect)):

| client | version | tested |
|---|---|---|
"""
versions: dict[str, str] = {}


def serving(directory: Path, *options: str) -> Iterator[int]:
    """Run the command in a process of its own; yield its port."""
    command = [sys.executable, "-m", "hiveacid", "serve", "-w", str(directory), "--port", "0", *options]
    with subprocess.Popen(
        [*command, "--conf", "spark.driver.memory=1g"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serving on" in line)
        yield int(line.split(":")[-1].split()[0])
        process.terminate()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    yield from serving(tmp_path_factory.mktemp("wh"))


@pytest.fixture(scope="module")
def http_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    yield from serving(tmp_path_factory.mktemp("wh"), "--http")


def run(*command: object, cwd: Path | None = None, **environment: str) -> str:
    """Run a program; return its output. Fails with it if the program fails."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=cwd,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dbapi(client: str, port: int) -> None:
    versions[client] = run(PYTHON, Path(__file__).parent / "programs/dbapi.py", client, port).split()[-1]


@pytest.mark.parametrize("client", ["pyhive", "impyla", "sqlalchemy"])
def test_clients_of_python(client: str, port: int) -> None:
    dbapi(client, port)


def test_impyla_over_http(http_port: int) -> None:
    dbapi("impyla_http", http_port)


def beeline(client: str, url: str, directory: Path) -> None:
    """Run the statements of examples/beeline.md, and compare its last result."""
    page = (ROOT / "examples/beeline.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(sql|text)\n(.*?)```", page, re.DOTALL))
    script = directory / "script.sql"
    script.write_text(blocks["sql"], encoding="utf-8")
    options = ("-n", "ann", "-p", "x", "--outputformat=csv2", "--silent=true", "-f", script)
    shown = run("java", "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine", "-u", url, *options)
    assert f"item,qty\n{blocks['text']}" in shown
    assert "NULL,default,sales,TABLE" in shown
    (jar,) = JARS.glob("hive-beeline-*.jar")
    versions[client] = jar.stem.rpartition("-")[2]


def test_beeline(port: int, tmp_path: Path) -> None:
    beeline("beeline", f"jdbc:hive2://127.0.0.1:{port}/default", tmp_path)


def test_beeline_over_http(http_port: int, tmp_path: Path) -> None:
    more = ";transportMode=http;httpPath=cliservice"
    beeline("beeline_http", f"jdbc:hive2://127.0.0.1:{http_port}/default{more}", tmp_path)


def test_dbt(port: int, tmp_path: Path) -> None:
    project = tmp_path / "dbt"
    shutil.copytree(ROOT / "examples/dbt", project)
    dbt = PYTHON.with_name("dbt")
    environment = {"HIVEACID_PORT": str(port), "DBT_PROFILES_DIR": str(project)}
    assert "PASS=7" in run(dbt, "build", cwd=project, **environment)
    orders = project / "seeds/orders.csv"
    orders.write_text(
        orders.read_text(encoding="utf-8").replace("1,ann,10", "1,ann,15") + "4,cat,5,2026-01-03\n"
    )
    assert "PASS=7" in run(dbt, "build", cwd=project, **environment)
    program = (
        "import sys; from pyhive import hive; c = hive.connect('127.0.0.1', port=int(sys.argv[1])).cursor(); "
        "c.execute('SELECT * FROM shop.totals ORDER BY customer'); print(c.fetchall()); "
        "c.execute('SELECT amount FROM shop.order_history WHERE id = 1 ORDER BY amount'); print(c.fetchall())"
    )
    totals, history = run(PYTHON, "-c", program, port).splitlines()
    assert totals == "[('ann', 45, 2), ('bob', 20, 1), ('cat', 5, 1)]"
    assert history == "[(10,), (15,)]"
    versions["dbt"] = run(
        PYTHON, "-c", "import importlib.metadata as m; print(m.version('dbt-spark'))"
    ).strip()


def test_the_matrix_is_what_was_tested() -> None:
    if len(versions) < len(STEPS):
        pytest.skip("only a part of the clients ran")
    rows = [f"| {name} | {versions[client]} | {steps} |\n" for client, (name, steps) in STEPS.items()]
    page, text = ROOT / "docs/clients.md", HEAD + "".join(rows)
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    page.write_text(text, encoding="utf-8")
    assert before == text, "docs/clients.md was out of date; it is written now"
