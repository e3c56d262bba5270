"""Real clients of ``hiveacid serve``, and the examples, with the versions of requirements/clients.txt: make clients.

Writes docs/clients.md and the outputs of examples/notebook.ipynb.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.servers.hs2_process import JARS, serving

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-clients/bin/python"
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
    "dbt_session": (
        "dbt-spark, method session, without a server",
        "examples/dbt/session.py: the same, on the tables that the server made",
    ),
    "airflow": (
        "Airflow's hook for HiveServer2",
        "examples/airflow_dag.py: CREATE, INSERT OVERWRITE, MERGE, SELECT, settings",
    ),
    "notebook": ("Jupyter (nbclient), without a server", "examples/notebook.ipynb and its outputs"),
}
HEAD = """# Clients

<!-- Written by make clients: do not edit. -->

Clients that `make clients` runs with `hiveacid serve` ([how to connect](serve.md#connect)), and the examples that need no
server. The run compares this page with what it tested.

| client | version | tested |
|---|---|---|
"""
TAIL = """
`tests/clients/test_logins.py` logs in by OpenLDAP over TLS, and by Kerberos of MIT ([Who may connect](serve.md#who-may-connect)):

| client | OpenLDAP over TLS | Kerberos |
|---|---|---|
| beeline with Hive JDBC | binary, HTTP | binary, HTTP |
| impyla | binary, HTTP | binary, HTTP (with the package `kerberos`) |
| PyHive | HTTP; it has no TLS for the binary transport | binary (with the package `kerberos`); not HTTP: it sends one ticket with all requests, and a ticket is accepted once |
| curl --negotiate --service-name hive | | HTTP |
"""
PACKAGES = {"dbt": "dbt-spark", "airflow": "apache-airflow-providers-apache-hive", "notebook": "nbclient"}
versions: dict[str, str] = {}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "wh"  # made by the server


@pytest.fixture(scope="module")
def port(warehouse: Path) -> Iterator[int]:
    with serving(warehouse) as port:
        yield port


@pytest.fixture(scope="module")
def http_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving(tmp_path_factory.mktemp("wh"), "--http") as port:
        yield port


@pytest.fixture
def with_spark(tmp_path: Path) -> dict[str, str]:
    """Return the environment in which the interpreter of .venv-clients finds hiveacid and PySpark, behind its own packages."""
    shim = tmp_path / "shim"
    shim.mkdir()
    packages = sysconfig.get_paths()["purelib"]
    (shim / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({packages!r})\n", encoding="utf-8")
    return {"PYTHONPATH": str(shim)}


def version_of(client: str) -> str:
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    return run(PYTHON, "-c", code, PACKAGES[client]).strip()


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


def test_dbt(port: int, warehouse: Path, tmp_path: Path, with_spark: dict[str, str]) -> None:
    project = tmp_path / "dbt"
    shutil.copytree(ROOT / "examples/dbt", project)
    dbt, orders = PYTHON.with_name("dbt"), project / "seeds/orders.csv"
    environment = {"HIVEACID_PORT": str(port), "DBT_PROFILES_DIR": str(project)}
    assert "PASS=7" in run(dbt, "build", cwd=project, **environment)
    changed = orders.read_text(encoding="utf-8").replace("1,ann,10", "1,ann,15")
    orders.write_text(changed, encoding="utf-8")
    assert "PASS=7" in run(dbt, "build", cwd=project, **environment)
    versions["dbt"] = version_of("dbt")
    orders.write_text(changed + "4,cat,5,2026-01-03\n", encoding="utf-8")
    environment |= with_spark | {"HIVEACID_WAREHOUSE": str(warehouse)}
    assert "PASS=7" in run(PYTHON, "session.py", "build", "--target", "session", cwd=project, **environment)
    versions["dbt_session"] = versions["dbt"]
    program = (
        "import sys; from pyhive import hive; c = hive.connect('127.0.0.1', port=int(sys.argv[1])).cursor(); "
        "c.execute('SELECT * FROM shop.totals ORDER BY customer'); print(c.fetchall()); "
        "c.execute('SELECT amount FROM shop.order_history WHERE id = 1 ORDER BY amount'); print(c.fetchall())"
    )
    totals, history = run(PYTHON, "-c", program, port).splitlines()
    assert totals == "[('ann', 45, 2), ('bob', 20, 1), ('cat', 5, 1)]"
    assert history == "[(10,), (15,)]"


def test_airflow(port: int, tmp_path: Path) -> None:
    environment = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW_CONN_HIVESERVER2_DEFAULT": f"hiveserver2://airflow@127.0.0.1:{port}/default",
    }
    (tmp_path / "dags").mkdir()
    shutil.copy(ROOT / "examples/airflow_dag.py", tmp_path / "dags")
    airflow = PYTHON.with_name("airflow")
    run(airflow, "db", "migrate", **environment)
    shown = run(airflow, "dags", "test", "hiveacid_orders", **environment)
    assert "ann: 40\nbob: 20\n" in shown
    versions["airflow"] = version_of("airflow")


def test_notebook(tmp_path: Path, with_spark: dict[str, str]) -> None:
    page, executed = ROOT / "examples/notebook.ipynb", tmp_path / "executed.ipynb"
    run(PYTHON, Path(__file__).parent / "programs/notebook.py", page, executed, tmp_path, **with_spark)
    before, text = page.read_text(encoding="utf-8"), executed.read_text(encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    assert before == text, "the outputs of examples/notebook.ipynb were out of date; they are written now"
    versions["notebook"] = version_of("notebook")


def test_the_start_page(tmp_path: Path) -> None:
    """The commands of the page, but for those that make the environment, which is this test's."""
    page = (ROOT / "docs/start.md").read_text(encoding="utf-8").partition("## From the shell")[2]
    lines = re.sub(r"\\\n +", "", page).splitlines()  # a command may go on in the next line
    commands = [line.strip() for line in lines if line.startswith("    ")]
    assert len(commands) <= 10
    port, variables, shown = 0, "", ""
    with ExitStack() as servers:
        for command in commands:
            if command.startswith(("python3 -m venv", "source ", "pip install")):
                continue
            if command.startswith("hiveacid serve"):
                port = servers.enter_context(serving(tmp_path / "wh"))
            elif command.startswith("JARS="):
                variables = command
            else:
                path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
                line = f"{variables}\n{command.replace('10000', str(port))}"
                shown = run("bash", "-c", line, cwd=tmp_path, PATH=path)
    assert "│ 2   ┆ jam  ┆ 5   │" in shown


def test_the_matrix_is_what_was_tested() -> None:
    if len(versions) < len(STEPS):
        pytest.skip("only a part of the clients ran")
    rows = [f"| {name} | {versions[client]} | {steps} |\n" for client, (name, steps) in STEPS.items()]
    page, text = ROOT / "docs/clients.md", HEAD + "".join(rows) + TAIL
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    page.write_text(text, encoding="utf-8")
    assert before == text, "docs/clients.md was out of date; it is written now"
