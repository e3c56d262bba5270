"""Tests that only ``make test-all`` runs, each with the smaller test that ``make test`` keeps in its place.

``make test`` leaves them out and says how many there are. A test that the command line names by its id always runs.
Tests with many cases take a few of them in ``make test``, drawn by a seed (:func:`sample`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random, SystemRandom
from typing import TypeVar

T = TypeVar("T")

ALL = bool(os.environ.get("HIVEACID_TEST_ALL"))
"""Whether every test runs; set by ``make test-all`` and the targets for other Sparks and engines."""

_SCRIPTS = [path.stem for path in sorted((Path(__file__).parents[1] / "sql").glob("*.test"))]
_OTHER_INTERFACE = "the script runs by the other SQL interface"
_DEATHS = "deaths in INSERT and in a major compaction stay; test_crash.py has those of the other statements"
_LAYOUTS = "the layout with partitions and buckets, and an insert-only one, stay"
_POSTGRES = "the same test on PostgreSQL stays"
_FEED = "the feed that replays to the table over restarts and compactions stays"
_SCRIPTED = "the scripts of tests/sql cover the statements"
_UNDER_FAULTS = "a batch that died at each point stays, and tests/unit/streaming/test_killed.py kills writers"
_LISTED = "tests/unit/cli has the commands without Spark; one command a kind stays"

# Prefixes of test ids, relative to `tests`.
EXHAUSTIVE = {
    **{f"sql/test_scripts.py::test_script[{name}]": _OTHER_INTERFACE for name in _SCRIPTS[1::2]},
    **{f"sql/test_scripts.py::test_script_by_spark_sql[{name}]": _OTHER_INTERFACE for name in _SCRIPTS[::2]},
    "connect/test_run.py::test_a_chosen_part_on_a_connect_server[more]": "the essentials on the same server stay",
    "cluster/test_cluster.py::test_output_that": "smoke/test_smoke.py loses staged rows without a cluster",
    "cluster/test_cluster.py::test_times_are": "spark/test_time_zones.py compares zones without a cluster",
    "contract/test_history.py::test_a_planted_bug_is_caught_in_processes": "planted bugs in threads stay",
    "contract/test_lost_answers.py::test_a_verb_is_done_once[mariadb": "test_wire.py cuts MariaDB off at each round trip",
    "contract/test_mariadb.py::TestMariadbServer::test_a_history": _POSTGRES,
    "contract/test_mariadb.py::TestMariadbServer::test_walks": _POSTGRES,
    "crash/test_crash.py::test_the_statement_is_done_or_never_was[overwrite": "INSERT, MERGE and transactions stay",
    "crash/test_crash.py::test_the_statement_is_done_or_never_was[update": "MERGE updates as well",
    "crash/test_crash.py::test_a_writer_that_wakes_up_too_late_changes_nothing[staged": "two later moments stay",
    "crash/test_crash.py::test_a_writer_that_wakes_up_too_late_changes_nothing[first": "the latest moment stays",
    "crash/test_crash_files.py::test_a_conversion_is_done_or_never_was[full": "the conversion with more steps stays",
    "crash/test_crash_files.py::test_load_data_is_done_or_never_was[insert_only": "the same steps in a full ACID table stay",
    "crash/test_object_store_kill.py": "test_kill.py kills drivers; spark/test_object_store.py has deaths on S3",
    "crash/test_services.py::test_a_service_process_works": "two processes and one turn stay; unit/services has the watch",
    "crash/test_soak.py": "test_services.py kills one of two processes at work",
    "crash/test_stream_crash.py::test_a_query_that_is_killed": _UNDER_FAULTS,
    "hostile/test_parameter_values.py::test_parameter_values_are_data_in_acid_sql[true]": "the other setting stays",
    "spark/test_beside_trino.py::test_update_and_merge_at_level_hive3_write_rows_as_statement_zero[None": "other sizes stay",
    "spark/test_layouts.py::test_partitions_of_odd_types": "spark/test_odd_names.py has odd values of partitions",
    "spark/test_object_store.py::test_a_driver_that_dies_at_any_step_leaves_no_partial_row[minor": _DEATHS,
    "spark/test_object_store.py::test_a_driver_that_dies_at_any_step_leaves_no_partial_row[overwrite": _DEATHS,
    "spark/test_object_store.py::test_a_driver_that_dies_at_any_step_leaves_no_partial_row[update": _DEATHS,
    "spark/test_object_store.py::test_a_warehouse_may_lie_on_hdfs": "contract/test_file_systems.py uses the same HDFS",
    "spark/test_object_store.py::test_in_a_race": "spark/test_server_stores.py lets two sessions write at once",
    "spark/test_random_history.py::test_random_histories[bucketed_": _LAYOUTS,
    "spark/test_random_history.py::test_random_histories[insert_only_partitioned": _LAYOUTS,
    "spark/test_random_history.py::test_random_histories[partitioned]": _LAYOUTS,
    "spark/test_random_history.py::test_random_histories[plain": _LAYOUTS,
    "spark/test_shell.py::test_a_person": "unit/cli/test_shell_parts.py has its parts; shells on a pipe stay",
    "spark/test_stream_sink.py::test_what_is_refused": "spark/test_data_source.py refuses the same of a batch",
    "spark/test_stream_source.py::test_inserts_only": _FEED,
    "spark/test_stream_source.py::test_insert_only_tables": _FEED,
    "spark/test_streaming.py::test_streamed_rows_are_read_while": "unit/streaming reads open batches without Spark",
    "spark/test_views.py::test_in_python": "the script views.test stays",
    "unit/streaming/test_killed.py::test_a_killed_writer_leaves_what_it_committed[50-3": "a writer killed in an open batch stays",
}


def is_exhaustive(name: str) -> bool:
    """Tell whether a test, given its id relative to ``tests``, runs in ``make test-all`` only."""
    return name.startswith(tuple(EXHAUSTIVE))


def sample(cases: Sequence[T], count: int) -> list[T]:
    """Return all cases in ``make test-all``, otherwise a few drawn by HIVEACID_TEST_SEED, in their order.

    >>> for statement in sample(STATEMENTS, 10): ...
    """
    if ALL or len(cases) <= count:
        return list(cases)
    given = os.environ.get("HIVEACID_TEST_SEED", "1" if os.environ.get("CI") else "")
    seed = int(given) if given else SystemRandom().randrange(10**6)
    print(f"HIVEACID_TEST_SEED={seed}")  # noqa: T201 - shown where a test fails
    return [cases[index] for index in sorted(Random(seed).sample(range(len(cases)), count))]
