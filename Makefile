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
# Behind a pip install: a line for each package, since a minute of silence looks like a stop. `pipefail` keeps pip's status.
SAYS := | while IFS= read -r line; do case "$$line" in \
	"Collecting "*|*"Building wheel for "*) echo "   $${line%% (*}" ;; \
	"Installing "*) echo "   Installing them (about a minute for Spark)" ;; \
	esac; done
# What a test run may be narrowed to: make test TESTS=tests/unit ARGS="-k buckets"
TESTS ?= tests
ARGS ?=
# Bytecode is kept: each of the hundred processes of a test run would compile the same modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Processes that share the machine; every one of them that needs Spark starts its own JVM.
WORKERS ?= 3
# Whole files to each, the longest first (tests/support/file_order.py); xdist itself would begin with those of many tests.
# A worker that dies ends the run: xdist 3.8 may wait for ever for the one that would replace it (its loadscope scheduler
# gives a new worker one unit, and a worker keeps its last test until it gets another one).
SHARED := -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

.PHONY: help
help:  ## show this list
	@echo "hiveacid: Hive ACID tables for PySpark. Each target sets up all it needs."
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

.PHONY: demo demo-plan
demo-plan:
	@$(if $(wildcard $(STAMPS)/demo),,echo "== first Java, if it is missing, and Spark and hiveacid into $(VENV): two or three minutes")
	@echo "== then the demo: 12 steps in about two minutes, each of which is compared with plain Spark"
demo: demo-plan java $(STAMPS)/demo $(STAMPS)/project  ## run the main job on the real flights of 2013 (under 3 minutes)
	@PYTHONPATH=examples $(BIN)/python -m flights $(ARGS)

# Under a minute and a half on two idle cores: no JVM, no server but those that unit tests start for themselves.
.PHONY: check
check: lint  ## lint, types and the unit tests, to run before each commit (under 3 minutes)
	@echo "== unit tests"
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/unit $(ARGS)

.PHONY: lint
lint: $(STAMPS)/lint $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project  ## ruff, mypy, import-linter and the style rules (FIX=1 formats and mends first)
	@echo "== ruff"
	@$(if $(FIX),$(BIN)/ruff check --fix-only . && $(BIN)/ruff format .)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-cache
	@echo "== mypy and the style rules, side by side"
	@printf '%s\n' mypy 'python -m pytest -q -p no:cacheprovider tests/tidy' | xargs -P 2 -I{} sh -c '$(BIN)/{}'

# What `make lint`, `make interop`, `make clients` and `make image` run.
ELSEWHERE := --ignore=tests/tidy --ignore=tests/interop --ignore=tests/clients --ignore=tests/deploy
# Marks say what only `make test-all` runs, and the smaller test that stays: tests/support/exhaustive.py
test-all smoke interop-corpus interop-hive: export HIVEACID_TEST_ALL ?= 1
.PHONY: test test-all
test: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project $(STAMPS)/classes  ## a test of every behaviour (TESTS=path ARGS="pytest options" narrow it)
test-all: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project $(STAMPS)/classes  ## all tests: before a release
test test-all:
	@$(BIN)/python tests/support/servers/hadoop_jars.py
	@echo "== pytest $(TESTS) $(ARGS)$(if $(HIVEACID_TEST_ALL), (all tests))"
	@$(BIN)/python -m pytest $(SHARED) --durations=40 $(if $(filter tests,$(TESTS)),$(ELSEWHERE)) $(TESTS) $(ARGS)

# What is too long for CI, too: the mark `cluster`. HIVEACID_TEST_SECONDS: how long a server is away.
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
SMOKE_PARTS ?= 'not by_spark_sql' by_spark_sql
.PHONY: smoke
smoke: java $(OLD)/stamp  ## run the smoke test, all SQL scripts and small changes on an older Spark (SPARK=3.5 or 4.0)
	@echo "== smoke test on Spark $(SPARK)"
	@printf '%s\n' $(SMOKE_PARTS) | PYTHONPATH=src xargs -P 2 -I{} \
	    $(OLD)/bin/python -m pytest -q -p no:cacheprovider -k {} tests/smoke tests/sql \
	    tests/spark/test_small_changes.py tests/spark/test_few_rows_in_driver.py $(ARGS)

# PROGRAM=many_files, compaction, ingest or stores: the other programs of bench/, which say what they measure.
PROGRAM ?= run
.PHONY: bench bench-quick
bench-quick: ARGS = --quick
bench: java $(if $(filter run,$(PROGRAM)),.venv-bench/stamp,$(STAMPS)/test $(STAMPS)/project)  ## measure all against plain Spark, Delta Lake and Iceberg (about an hour; ARGS="--help")
	@PYTHONPATH=src:tests $(if $(filter run,$(PROGRAM)),.venv-bench/bin,$(BIN))/python bench/$(PROGRAM).py $(ARGS)
bench-quick: bench  ## the same with a third of the rows

.PHONY: stress
stress: $(STAMPS)/test $(STAMPS)/project  ## long checks: histories on each store, kills, simulation (half an hour)
	@tools/servers.sh
	@$(BIN)/python tests/support/servers/hadoop_jars.py
	@PYTHONPATH=tests $(BIN)/python tools/stress.py $(ARGS)

.PHONY: interop
interop: interop-corpus interop-hive  ## tables that Hive and Trino wrote gone on with; real Hive beside us (its parts: interop-corpus, interop-hive)

.PHONY: interop-corpus
interop-corpus: java $(STAMPS)/test $(STAMPS)/project
	@echo "== tables of other engines (HIVEACID_TEST_COUNT=2: two states of each scenario)"
	@$(BIN)/python -m pytest -n $(WORKERS) --durations=10 --ignore-glob='*/test_hive_*' tests/interop $(ARGS)

# Fetches 0.5 GB. All of it in one process, so that one Hive runs at a time.
.PHONY: interop-hive
interop-hive: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project
	@tools/servers.sh
	@$(BIN)/python tests/interop/hive_install.py
	@$(BIN)/python tests/support/servers/hadoop_jars.py
	@echo "== real Hive (HIVEACID_TEST_CHAINS=2,hdfs:4.0.1:plain HIVEACID_TEST_COUNT=2 HIVEACID_TEST_SECONDS=20: a short form)"
	@$(BIN)/python -m pytest --durations=10 $(if $(filter tests,$(TESTS)),$(wildcard tests/interop/test_hive_*.py),$(TESTS)) $(ARGS)

.PHONY: clients
clients: java $(STAMPS)/test $(STAMPS)/arrow $(STAMPS)/project .venv-clients/stamp  ## PyHive, impyla, SQLAlchemy, beeline, dbt and Airflow on hiveacid serve
	@$(BIN)/python -m pytest --durations=10 tests/clients $(ARGS)

# The image is made of Debian's packages, by buildah: none is pulled.
.PHONY: image
image: java $(STAMPS)/test $(STAMPS)/project  ## build the image of examples/deploy and run what its compose file starts (Debian, as root; 10 minutes)
	@tools/servers.sh
	@command -v buildah >/dev/null && command -v mmdebstrap >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah mmdebstrap || echo "== not here: buildah and mmdebstrap"
	@$(BIN)/python -m pytest tests/deploy $(ARGS)

.PHONY: docs docs-serve
docs: .venv-docs/stamp  ## build the documentation into site/, and look at three of its pages in Chromium if it is here
	@.venv-docs/bin/mkdocs build --strict --quiet
	@.venv-docs/bin/codespell *.md docs examples
	@.venv-docs/bin/python tools/site_pictures.py site
	@echo "== site/index.html"
docs-serve: .venv-docs/stamp  ## show the documentation on port 8000, and follow changes
	@.venv-docs/bin/mkdocs serve
docs docs-serve: export NO_MKDOCS_2_WARNING := 1

# Fetches the newest packages that the wheel's requirements allow, as a user's pip does.
.PHONY: release-check
release-check: .venv-release/stamp  ## build the release of this commit twice, install it, check its content, licences and sizes
	@.venv-release/bin/python tools/release_check.py

.PHONY: clean
clean:  ## remove the virtual environment and everything that was built
	@rm -rf $(VENV) .venv-spark-* .venv-bench .venv-clients .venv-docs .venv-release build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "== clean"

.PHONY: java
java:
	@tools/java.sh

# --- set-up: a stamp per set of packages, older than the file that pins it -----------------------
$(STAMPS)/build: requirements/build.txt tools/python.sh
	@python="$$(tools/python.sh)"; echo "== virtual environment $(VENV) from $$python"; \
	"$$python" -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements/build.txt $(SAYS)
	@mkdir -p $(STAMPS) && touch $@

# pyspark comes as a source archive of 450 MB; --no-build-isolation builds it with the pinned setuptools.
$(STAMPS)/%: requirements/%.txt $(STAMPS)/build
	@echo "== packages of requirements/$*.txt (a minute or two the first time)"
	@$(PIP) install --require-hashes --no-build-isolation -r requirements/$*.txt $(SAYS)
	@touch $@

# What the JVMs of the tests start with; they also start without it.
$(STAMPS)/classes: $(STAMPS)/test $(STAMPS)/project tests/support/servers/class_archive.py
	@echo "== archive of Spark's classes for tests"
	@$(BIN)/python tests/support/servers/class_archive.py 2>/dev/null || echo "== tests start without it"
	@touch $@

# The environments beside it: bench, clients, docs, release, spark-3.5 and spark-4.0.
.venv-%/stamp: requirements/%.txt requirements/build.txt
	@python="$$(tools/python.sh)"; echo "== virtual environment .venv-$* from $$python"; "$$python" -m venv .venv-$*
	@echo "== packages of requirements/$*.txt (a minute or two the first time)"
	@for set in build $*; do .venv-$*/bin/python -m pip install --disable-pip-version-check --require-hashes \
	    --no-build-isolation -r requirements/$$set.txt $(SAYS); done
	@touch $@

$(STAMPS)/project: pyproject.toml $(STAMPS)/build
	@echo "== hiveacid itself, from src/"
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
