# Every target sets up what it needs: a virtual environment in .venv, pinned packages, a check for Java.
# Needed beforehand: Python 3.11 or newer, Java 17 or newer, make.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# What a test run may be narrowed to: make test TESTS=tests/unit ARGS="-k buckets"
TESTS ?= tests
ARGS ?=
# Bytecode is kept: each of the hundred processes of a test run would compile the same modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Processes that share the machine; every one of them that needs Spark starts its own JVM.
WORKERS ?= 3
# Whole files to each, the longest first (tests/support/file_order.py); xdist itself would begin with those of many tests.
SHARED := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help
help:  ## show this list
	@echo "hiveacid: Hive ACID tables for PySpark. Each target sets up all it needs."
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

.PHONY: demo
demo: java $(STAMPS)/demo $(STAMPS)/project  ## run the main job on the real flights of 2013 (under 3 minutes)
	@PYTHONPATH=examples $(BIN)/python -m flights $(ARGS)

# What `make lint`, `make interop` and `make clients` run.
ELSEWHERE := --ignore=tests/tidy --ignore=tests/interop --ignore=tests/clients
# Marks say what only `make test-all` runs, and the smaller test that stays: tests/support/exhaustive.py
test-all smoke interop-corpus interop-hive: export HIVEACID_TEST_ALL ?= 1
.PHONY: test test-all
test: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project $(STAMPS)/classes  ## a test of every behaviour (TESTS=path ARGS="pytest options" narrow it)
test-all: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project $(STAMPS)/classes  ## all tests (HIVEACID_TEST_ALL=once: as CI runs them)
test test-all:
	@$(BIN)/python tests/support/servers/hadoop_jars.py
	@echo "== pytest $(TESTS) $(ARGS)$(if $(HIVEACID_TEST_ALL), (all tests))"
	@$(BIN)/python -m pytest $(SHARED) --durations=40 $(if $(filter tests,$(TESTS)),$(ELSEWHERE)) $(TESTS) $(ARGS)

# What is too long for CI, too: the mark `cluster`. HIVEACID_TEST_OUTAGE: seconds that a server is away.
.PHONY: cluster
cluster: export HIVEACID_TEST_ALL ?= cluster
cluster: java $(STAMPS)/test $(STAMPS)/project $(STAMPS)/classes  ## all tests on a standalone Spark cluster of two workers, and the outage drill
	@tools/servers.sh
	@$(BIN)/python tests/support/servers/hadoop_jars.py
	@$(BIN)/python -m pytest --durations=20 tests/cluster $(ARGS)

# Older Sparks have environments of their own.
SPARK ?= 3.5
OLD := .venv-spark-$(SPARK)
# Both SQL interfaces at once, each in a process of its own.
.PHONY: smoke
smoke: java $(OLD)/stamp  ## run the smoke test, all SQL scripts and small changes on an older Spark (SPARK=3.5 or 4.0)
	@echo "== smoke test on Spark $(SPARK)"
	@printf '%s\n' 'not by_spark_sql' by_spark_sql | PYTHONPATH=src xargs -P 2 -I{} \
	    $(OLD)/bin/python -m pytest -q -p no:cacheprovider -k {} tests/smoke tests/sql \
	    tests/spark/test_small_changes.py tests/spark/test_few_rows_in_driver.py $(ARGS)

# Not in CI: the server is one of Debian's suite sid, which may break on any day. Once it was fetched, `make test` has these too.
.PHONY: test-mysql
test-mysql: export HIVEACID_TEST_ALL ?= 1
test-mysql: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project  ## the tests of stores on a MySQL server, which is fetched (3 minutes)
	@$(BIN)/python tests/support/servers/mysql_debs.py
	@$(BIN)/python -m pytest --durations=10 -k mysql tests/contract tests/unit/arrow tests/spark/test_server_stores.py $(ARGS)

# Under a minute and a half on two idle cores: no JVM, no server but those that unit tests start for themselves.
.PHONY: check
check: lint  ## lint, types and the unit tests, to run before each commit (under 3 minutes)
	@echo "== unit tests"
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/unit $(ARGS)

.PHONY: lint
lint: $(STAMPS)/lint $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project  ## ruff, mypy, import-linter and the style rules
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-cache
	@echo "== mypy and the style rules, side by side"
	@printf '%s\n' mypy 'python -m pytest -q -p no:cacheprovider tests/tidy' | xargs -P 2 -I{} sh -c '$(BIN)/{}'

.PHONY: format
format: $(STAMPS)/lint  ## let ruff format the code and fix what it can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

# With Delta Lake and Iceberg beside us: on the newest Spark that both run on, in an environment of its own.
.PHONY: bench
bench: java .venv-bench/stamp  ## measure all against plain Spark, Delta Lake and Iceberg (about an hour; ARGS="--help")
	@PYTHONPATH=src .venv-bench/bin/python bench/run.py $(ARGS)

.PHONY: bench-hudi
bench-hudi: java .venv-bench/stamp .venv-spark-3.5/stamp  ## use cases beside Hudi and Iceberg on Spark 3.5, which has a build of Hudi
	@PYTHONPATH="src:$$(echo .venv-spark-3.5/lib/python*/site-packages)" .venv-bench/bin/python bench/run.py \
	    --peers Hudi,Iceberg --sections cases --rows 2000000 --runs 3 --results bench/results/hudi $(ARGS)

.PHONY: bench-quick
bench-quick: java .venv-bench/stamp  ## the same with a third of the rows
	@PYTHONPATH=src .venv-bench/bin/python bench/run.py --quick $(ARGS)

.PHONY: stress
stress: $(STAMPS)/test $(STAMPS)/project  ## long checks: histories on each store, kills, simulation (half an hour)
	@tools/servers.sh
	@$(BIN)/python tests/support/servers/hadoop_jars.py
	@PYTHONPATH=tests $(BIN)/python tools/stress.py $(ARGS)

.PHONY: bench-files
bench-files: java $(STAMPS)/test $(STAMPS)/project  ## measure 10,000 original files and 1,000 deltas (ARGS="--sizes 1000,3000")
	@$(BIN)/python bench/many_files.py $(ARGS)

.PHONY: bench-compact
bench-compact: java $(STAMPS)/test $(STAMPS)/project  ## measure compactions of 10 million rows (ARGS="--rows 1000000 --json FILE")
	@$(BIN)/python bench/compaction.py $(ARGS)

.PHONY: bench-ingest
bench-ingest: $(STAMPS)/test $(STAMPS)/project  ## measure streams: Arrow and JSON rows a second (ARGS="--rows 1000000 --json FILE")
	@$(BIN)/python bench/ingest.py $(ARGS)

.PHONY: bench-stores
bench-stores: $(STAMPS)/test $(STAMPS)/project  ## measure the transaction stores against bare inserts (ARGS="--json FILE")
	@PYTHONPATH=tests $(BIN)/python bench/stores.py $(ARGS)

.PHONY: interop
interop: interop-corpus interop-hive  ## tables that Hive and Trino wrote gone on with; real Hive beside us (see CONTRIBUTING)

.PHONY: interop-corpus
interop-corpus: java $(STAMPS)/test $(STAMPS)/project
	@echo "== tables of other engines (HIVEACID_TEST_STATES=2: two states of each scenario)"
	@$(BIN)/python -m pytest -n $(WORKERS) --durations=10 --ignore-glob='*/test_hive_*' tests/interop $(ARGS)

# Fetches 0.5 GB. HIVE_TESTS narrows it. All of it in one process, so that one Hive runs at a time.
HIVE_TESTS ?= $(wildcard tests/interop/test_hive_*.py)
.PHONY: interop-hive
interop-hive: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project  ## real Hive 3.1.3 and 4.0.1 beside us at one metastore
	@tools/servers.sh
	@$(BIN)/python tests/interop/hive_install.py
	@$(BIN)/python tests/support/servers/hadoop_jars.py
	@echo "== real Hive (HIVEACID_TEST_CHAINS=2 HIVEACID_TEST_CUTS=2 HIVEACID_TEST_SECONDS=20 HIVEACID_TEST_SEEDS=1 HIVEACID_TEST_PLACES=hdfs:4.0.1:plain: a short form)"
	@$(BIN)/python -m pytest --durations=10 $(HIVE_TESTS) $(ARGS)

.PHONY: clients
clients: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project .venv-clients/stamp  ## PyHive, impyla, SQLAlchemy, beeline, dbt and Airflow on hiveacid serve
	@$(BIN)/python -m pytest --durations=10 tests/clients $(ARGS)

.PHONY: docs
docs: $(STAMPS)/docs $(STAMPS)/project  ## build the documentation into site/
	@$(BIN)/mkdocs build --strict --quiet
	@echo "== site/index.html"

.PHONY: requirements
requirements: $(STAMPS)/compile  ## compile requirements/*.in anew (ARGS=--upgrade for newer versions)
	@tools/compile_requirements.sh $(ARGS)

.PHONY: clean
clean:  ## remove the virtual environment and everything that was built
	@rm -rf $(VENV) .venv-spark-* .venv-bench .venv-clients build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "== clean"

.PHONY: java
java:
	@tools/java.sh

# --- set-up: a stamp per set of packages, older than the file that pins it -----------------------
$(STAMPS)/build: requirements/build.txt tools/python.sh
	@python="$$(tools/python.sh)"; echo "== virtual environment $(VENV) from $$python"; \
	"$$python" -m venv $(VENV)
	@$(PIP) install --quiet --require-hashes -r requirements/build.txt
	@mkdir -p $(STAMPS) && touch $@

# pyspark comes as a source archive of 450 MB; --no-build-isolation builds it with the pinned setuptools.
$(STAMPS)/%: requirements/%.txt $(STAMPS)/build
	@echo "== packages of requirements/$*.txt (a minute or two the first time)"
	@$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements/$*.txt
	@touch $@

# What the JVMs of the tests start with; they also start without it.
$(STAMPS)/classes: $(STAMPS)/test $(STAMPS)/project tests/support/servers/class_archive.py
	@echo "== archive of Spark's classes for tests"
	@$(BIN)/python tests/support/servers/class_archive.py 2>/dev/null || echo "== tests start without it"
	@touch $@

.venv-bench/stamp: requirements/bench.txt requirements/build.txt
	@python="$$(tools/python.sh)"; echo "== virtual environment .venv-bench from $$python"; "$$python" -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	@echo "== packages of requirements/bench.txt (a minute or two the first time)"
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	    --no-build-isolation -r requirements/bench.txt
	@touch $@

.venv-clients/stamp: requirements/clients.txt requirements/build.txt
	@python="$$(tools/python.sh)"; echo "== virtual environment .venv-clients from $$python"; "$$python" -m venv .venv-clients
	@.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	@echo "== packages of requirements/clients.txt (a minute or two the first time)"
	@.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	    --no-build-isolation -r requirements/clients.txt
	@touch $@

.venv-spark-%/stamp: requirements/spark-%.txt requirements/build.txt
	@python="$$(tools/python.sh)"; echo "== virtual environment .venv-spark-$* from $$python"; \
	"$$python" -m venv .venv-spark-$*
	@.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	@echo "== packages of requirements/spark-$*.txt (a minute or two the first time)"
	@.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	    --no-build-isolation -r requirements/spark-$*.txt
	@touch $@

$(STAMPS)/project: pyproject.toml $(STAMPS)/build
	@echo "== hiveacid itself, from src/"
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
