"""Tests that only ``make test-all`` runs, each with the smaller test that ``make test`` keeps in its place.

``make test`` leaves them out and says how many there are. A test that the command line names by its id always runs.
Of tests with many cases ``make test`` takes a few, drawn by HIVEACID_TEST_SEED: whole tests by ``SAMPLED``, cases
within a test by :func:`sample`. CI runs all tests but those of ``REPEATED``, and samples of many cases.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from math import ceil
from pathlib import Path
from random import Random, SystemRandom
from typing import TypeVar

T = TypeVar("T")

ALL = bool(os.environ.get("HIVEACID_TEST_ALL"))
"""Whether every test runs; set by ``make test-all`` and the targets for other Sparks and engines."""

ONCE = os.environ.get("HIVEACID_TEST_ALL") == "once"
"""Whether every test but repetitions of others runs; set by CI."""

ON_CLUSTER = bool(os.environ.get("HIVEACID_TEST_CLUSTER"))
"""Whether the long tests of a cluster run, too; set by ``make cluster``."""

_SCRIPTS = [path.stem for path in sorted((Path(__file__).parents[1] / "sql").glob("*.test"))]
# Spark 4.0 runs a script by the interface that Spark 3.5 and 4.3 do not, so that CI has every script by both.
_TURN = int(version("pyspark").split(".")[1]) % 2
_GOLDEN = (
    "spark/test_corpus.py::test_tables_read_as_their_engine_reads_them",
    "spark/test_arrow_corpus.py::test_tables_read_without_spark_as_with_it",
)

_OTHER_INTERFACE = "the script runs by the other SQL interface"
_POSTGRES = "the same test on PostgreSQL stays"
_MARIADB = "the same test on MariaDB stays"
_OTHER_CASE = "another case of the same test stays"
_OTHER_GOLDEN = "tables of the same engine with the same kinds of files stay"
_DEATHS = "deaths in INSERT stay; crash/test_crash.py lets other statements and compactions die"
_DRIVER = "other moments of a killed driver stay; crash/test_crash.py has more statements"
_LAYOUTS = "the layout with partitions stays"
_FEED = "random histories replay the change feed; queries that are stopped and started again stay"
_CHANGES = "changes of statements and across compactions stay, and stream_source replays a feed"
_PLANS = "speed only; the rows are compared by other tests"
_SCRIPT = "the SQL scripts have the statements"
_LEASES = "leases of frames, derived frames and views stay"
_JOB = "the same MERGE in the driver stays"
_STRESS = "test_services.py kills one of two processes at work, and make stress runs this for longer"

# Reasons that say that a test repeats another one with other values: not for CI, but for `make test-all`.
REPEATED = frozenset({_OTHER_CASE, _OTHER_GOLDEN, _OTHER_INTERFACE, _LAYOUTS, _STRESS})

# Prefixes of test ids, relative to `tests`, that only `make cluster` runs, and the smaller tests of `make test-all`.
CLUSTER = {
    "cluster/test_outages.py": "contract/test_lost_answers.py cuts the store off at each call",
    "cluster/test_python_workers.py::test_an_archive": "the sentence about a missing package stays",
    "cluster/test_stores_and_places.py": "cluster/test_cluster.py kills an executor in MERGE",
    "cluster/test_python_workers.py::test_spark_submit": "the driver is another process in the other tests, too",
    "cluster/test_python_workers.py::test_a_zip": "spark/test_data_source.py runs the format without a cluster",
}

# Prefixes of test ids, relative to `tests`.
EXHAUSTIVE = {
    **{f"sql/test_scripts.py::test_script[{name}]": _OTHER_INTERFACE for name in _SCRIPTS[_TURN::2]},
    **{f"sql/test_scripts.py::test_script_by_spark_sql[{name}]": _OTHER_INTERFACE for name in _SCRIPTS[1 - _TURN :: 2]},
    "cluster/test_cluster.py": "smoke/test_smoke.py loses staged rows without a cluster; crash/test_kill.py kills drivers",
    "smoke/test_smoke.py::test_sparks_own_writers": "spark/test_native_writer.py has the writers",
    "smoke/test_smoke.py::test_the_main_job": "`make demo` runs the main job",
    "spark/test_few_rows_in_driver.py::test_long_texts": "property/test_orc_splice.py has files with long texts",
    "spark/test_file_skipping.py::test_original_files": "the same conditions on ACID files stay",
    "spark/test_hashing.py::test_random_values": "published values, and unit/core/schema with random ones, stay",
    "spark/test_narrowing.py::test_a_source_that_changes_is_read_once[by": _JOB,
    "spark/test_narrowing.py::test_names_of_columns_may_have_capitals[by": _JOB,
    "spark/test_narrowing.py::test_names_of_columns_may_have_capitals[not": _JOB,
    "spark/test_narrowing.py::test_the_result_is_the_same[by": _JOB,
    "spark/test_server_stores.py::test_two_sessions_insert_update_merge_and_compact[mariadb": "sessions on PostgreSQL stay",
    "spark/test_serve_process.py::test_a_server_whose_jvm_hangs": "unit/spark/session/test_jvm_process.py has silence; death stays",
    "spark/test_thread_connections.py::test_sessions_of_clients_leave_no_connection[300": _OTHER_CASE,
    "spark/test_thread_connections.py::test_threads_that_used_a_native_session_leave_no_connection[3000": _OTHER_CASE,
    "spark/test_stream_source.py::test_updates_are_paired": "unit/datasource pairs changes",
    "cluster/test_python_workers.py::test_a_worker": "unit/datasource/test_worker_pickling.py lacks a package without a cluster",
    "contract/test_history.py::test_a_planted_bug_is_caught_in_processes": "planted bugs in threads stay",
    "contract/test_secrets.py::test_the_command_line_takes_no_password[mariadb": _POSTGRES,
    "contract/test_secrets.py::test_the_command_line_takes_no_password[mysql": _POSTGRES,
    "contract/test_mariadb.py::TestMariadbServer::test_a_history": _POSTGRES,
    "contract/test_mariadb.py::TestMariadbServer::test_walks": _POSTGRES,
    "contract/test_mysql.py::TestMysqlServer::test_a_history": _POSTGRES,
    "contract/test_mysql.py::TestMysqlServer::test_walks": _POSTGRES,
    "crash/test_crash.py::test_a_compaction_is_done_or_never_was[minor": _OTHER_CASE,
    "crash/test_crash.py::test_the_statement_is_done_or_never_was[overwrite": "INSERT and MERGE stay",
    "crash/test_crash.py::test_the_statement_is_done_or_never_was[transaction": "INSERT and MERGE stay",
    "crash/test_crash.py::test_the_statement_is_done_or_never_was[update": "MERGE updates as well",
    "crash/test_crash.py::test_a_writer_that_wakes_up_too_late_changes_nothing[staged": "the latest moment stays",
    "crash/test_crash.py::test_a_writer_that_wakes_up_too_late_changes_nothing[first": "the latest moment stays",
    "crash/test_crash_files.py::test_a_conversion_is_done_or_never_was[full": "the conversion with more steps stays",
    "crash/test_crash_files.py::test_load_data_is_done_or_never_was[insert_only": _OTHER_CASE,
    "crash/test_object_store_kill.py": "test_kill.py kills drivers; spark/test_object_store.py has deaths on S3",
    "crash/test_kill.py::test_what_a_killed_driver_leaves[first_file]": _DRIVER,
    "crash/test_kill.py::test_what_a_killed_driver_leaves[not_committed]": _DRIVER,
    "crash/test_services.py::test_a_service_process_works": "two processes and one turn stay; unit/services has the watch",
    "spark/test_listing_reuse.py::test_a_repeated_plan": "speed only; the rows of kept listings are compared by other tests",
    **{
        f"spark/test_listing_reuse.py::test_files_that_others_put_beside_are_seen[{name}": "a file that others put beside stays"
        for name in ("directory", "partition")
    },
    "spark/test_listing_reuse.py::test_insert_only": "tables with row ids stay, and insert-only ones without kept listings",
    "spark/test_listing_reuse.py::test_every_statement": "changes of files, and random histories with kept listings, stay",
    "spark/test_large_writes.py": "INSERTs of fewer tasks stay; thousands of tasks take a minute",
    "crash/test_soak.py": _STRESS,
    "crash/test_stream_crash.py::test_a_batch_that_died_is_written_once[merge": _OTHER_CASE,
    "crash/test_stream_crash.py::test_a_query_that_is_killed": "batches that died stay; unit/streaming kills writers",
    "hostile/test_parameter_values.py::test_parameter_values_are_data_in_acid_sql[false": _OTHER_CASE,
    "hostile/test_parameter_values.py::test_parameter_values_are_data_in_acid_sql[true": "the other SQL interface stays",
    **{
        f"spark/test_arrow.py::test_files_of_every_kind[{name}": "each format stays, insert-only or plain"
        for name in ("plain-orc", "plain-parquet")
    },
    "spark/test_bad_input.py::test_a_missing_directory_is_named[]": "a partition whose directory is missing stays",
    "spark/test_beside_trino.py::test_an_unbucketed_table": "sizes only; Trino's rules for statements stay",
    "spark/test_beside_trino.py::test_update_and_merge_at_level_hive3_write_rows_as_statement_zero[3]": _OTHER_CASE,
    "spark/test_beside_trino.py::test_update_and_merge_at_level_hive3_write_rows_as_statement_zero[4]": _OTHER_CASE,
    "spark/test_beside_trino.py::test_files_are_loaded": "LOAD DATA into full ACID stays",
    "spark/test_beside_trino.py::test_two_clauses": "statements of one transaction at this level stay",
    "spark/test_changes.py::test_a_write_id_that_commits_late": _FEED,
    "spark/test_changes.py::test_an_overwrite": _CHANGES,
    "spark/test_changes.py::test_history_ends": _CHANGES,
    "spark/test_check.py::test_rows_in_the_wrong_bucket": "each spoilt partition has its finding, and stays",
    "spark/test_check.py::test_our_own_tables": "unit/table/test_check_golden.py has tables without findings",
    "spark/test_codecs.py::test_the_session_says": "sizes only; the codecs stay",
    "spark/test_compaction.py::test_files_have_the_names_that_hive_gives_them[hive-4.0.1": _OTHER_CASE,
    "spark/test_compaction.py::test_insert_only_tables[PARQUET]": _OTHER_CASE,
    "spark/test_compaction_balance.py::test_delete_events_that_are_not_applied_fail_the_compaction[1]": _OTHER_CASE,
    "spark/test_compaction_balance.py::test_staged_files_that_are_lost_fail_the_compaction[False": _OTHER_CASE,
    **{
        f"spark/test_compaction.py::test_{name}": "compactions that keep rows, ids and open transactions stay"
        for name in ("a_job_is_left", "a_session_compacts", "rebalance_spreads", "services_take", "two_levels")
    },
    **{
        f"spark/test_compaction_order.py::test_files_are_in_order_whatever_was_read[{name}": _OTHER_CASE
        for name in (
            "base_and_deltas-minor", "aborted_rows-minor", "several_buckets_in_a_file", "copies_of_originals",
            "streams_that_interleave-minor", "nothing_left", "rows_of_a_file_out_of_order-major",
        )
    },
    **{
        f"{test}[{name}]": _OTHER_GOLDEN
        for test in _GOLDEN
        for name in (
            "hive-3.1.3/insert_only_orc", "hive-3.1.3/insert_only_textfile", "hive-4.0.1/multi_insert", "trino-476/repeat",
            "hive-3.1.3/iow", "hive-3.1.3/load_data", "hive-3.1.3/merge",
            "hive-3.1.3/part_bucketed", "hive-4.0.1/all_types", "hive-4.0.1/bucketed", "hive-4.0.1/crud",
            "hive-4.0.1/iow", "hive-4.0.1/minor_major", "trino-476/aborted", "trino-476/bucket",
            "trino-476/crud", "trino-476/part_ctas", "trino-476/types",
        )
    },
    "spark/test_constraints.py::test_rows_that_are_not_written": _SCRIPT,
    "spark/test_data_source.py::test_a_view_in_sql": "the same options of a DataFrame stay",
    "spark/test_data_source.py::test_in_a_session_with_any_settings": "the source as it is registered stays",
    "spark/test_data_source.py::test_overwriting_a_table_without": "overwritten partitions stay",
    "spark/test_evolution.py::test_columns_are_matched_by_position": "columns matched by name stay",
    "spark/test_generated_code.py::test_more_delete_events": "speed only; that write ids are not in the code stays",
    "spark/test_hwc.py::test_a_job_written": "its statements are those of `acid.sql`",
    "spark/test_layouts.py::test_compaction_leaves_a_clock_time_that_the_session_skips[insert_only": _OTHER_CASE,
    "spark/test_layouts.py::test_insert_only_tables_with_files_of_every_kind[orc": _OTHER_CASE,
    "spark/test_layouts.py::test_insert_only_tables_with_files_of_every_kind[text": _OTHER_CASE,
    "spark/test_layouts.py::test_partitions_of_odd_types": "spark/test_odd_names.py has odd values of partitions",
    **{
        f"spark/test_lease.py::test_{name}": _LEASES
        for name in (
            "asking_costs", "cached_frame", "frame_without", "join_keeps", "the_end_of",
            "union_of", "view_over_a_view",
        )
    },
    "spark/test_load_and_convert.py::test_a_plain_table_becomes_insert_only": "the conversion to full ACID stays",
    "spark/test_load_and_convert.py::test_load_elsewhere": "LOAD DATA into full ACID stays",
    "spark/test_load_and_convert.py::test_load_that_has_to_insert": "LOAD DATA into full ACID stays",
    "spark/test_migrate.py::test_from_sqlite": "the interrupted migration, brought to its end, stays",
    "spark/test_narrowing.py::test_a_source_that_changes_is_read_once[not": _OTHER_CASE,
    "spark/test_narrowing.py::test_keys_with_variables_find_their_rows[not": _OTHER_CASE,
    "spark/test_narrowing.py::test_the_result_is_the_same[not": _OTHER_CASE,
    **{
        f"spark/test_object_store.py::test_a_driver_that_dies_at_any_step_leaves_no_partial_row[{name}": _DEATHS
        for name in ("major", "overwrite", "update")
    },
    "spark/test_object_store.py::test_a_driver_that_dies_at_any_step_leaves_no_partial_row[minor": _OTHER_CASE,
    "spark/test_object_store.py::test_files_come_from": "the same files in a local warehouse stay",
    "spark/test_object_store.py::test_partitions_cost": "speed only; every statement on S3 stays",
    "spark/test_object_store.py::test_a_warehouse_may_lie_on_hdfs": "contract/test_file_systems.py uses the same HDFS",
    "spark/test_object_store.py::test_in_a_race": "spark/test_server_stores.py lets two sessions write at once",
    **{
        f"spark/test_odd_names.py::test_odd_names_that_a_table_can_have[{name}": _OTHER_CASE
        for name in ("_under", "1]", "name6", "quo'te", "sp ace")
    },
    "spark/test_overwritten_files.py": "space only; other tests of the cleaner stay",
    **{
        f"spark/test_native_writer.py::test_{name}": "a job with every writer, new tables, MERGE and refusals stay"
        for name in ("a_source", "a_cached_view", "insert_only", "names", "nulls", "tables_of_spark", "transactions")
    },
    "spark/test_partition_lookup.py::test_originals_of_several_partitions[1000": _OTHER_CASE,
    "spark/test_partition_lookup.py::test_originals_of_several_partitions[3-T": _OTHER_CASE,
    **{
        f"spark/test_native_names.py::test_{name}": "views and databases of the other catalog stay"
        for name in ("hidden_columns", "names_stand", "tables_of")
    },
    **{
        f"spark/test_native.py::test_{name}": "tests/sql runs scripts by this interface"
        for name in ("databases_are", "errors_are", "explain", "one_current", "sessions_that", "variables")
    },
    "spark/test_past_in_sql.py::test_names_and_places[acid]": "the other SQL interface stays",
    "spark/test_past_in_sql.py::test_the_past_of_a_table": "the script past.test stays",
    **{
        f"spark/test_plans.py::test_{name}": _PLANS
        for name in (
            "a_count_reads", "a_filter_in_the_text", "a_known_filter", "a_later_filter", "a_look_at_bits",
            "an_insert_only_table", "counting_reads", "deleted_rows_are_told", "deletes_add", "deletes_are_joined",
            "files_out_of_reach", "only_", "orc_is_read", "originals_that",
        )
    },
    **{
        f"spark/test_random_history.py::test_random_histories[{name}": _LAYOUTS
        for name in ("bucketed_", "partitioned]", "plain")
    },
    "spark/test_random_history.py::test_random_histories[insert_only": "SQL scripts write to insert-only tables",
    "spark/test_server_stores.py::test_two_sessions_in_each_others_way[mariadb": _POSTGRES,
    "spark/test_server_stores.py::test_two_sessions_in_each_others_way[mysql": _POSTGRES,
    "spark/test_server_stores.py::test_two_sessions_insert_update_merge_and_compact[mysql": _MARIADB,
    "spark/test_server_stores.py::test_two_sessions_insert_update_merge_and_compact[postgres": _MARIADB,
    "spark/test_shell.py::test_a_person": "unit/cli/test_shell_parts.py has its parts; shells on a pipe stay",
    "spark/test_side_by_side.py::test_all_partitions_are_compacted_and_reported_in_order[1]": _OTHER_CASE,
    "spark/test_side_by_side.py::test_ctrl_c": "an interrupted statement and interrupted jobs stay",
    "spark/test_side_by_side.py::test_parquet": "insert-only tables in Parquet stay in tests/sql",
    "spark/test_side_by_side.py::test_some": _PLANS,
    **{
        f"spark/test_sql_session.py::test_{name}": _SCRIPT
        for name in ("a_condition", "many_rows", "no_view", "show_create", "small_results", "the_session", "what_the")
    },
    "spark/test_stream_sink.py::test_what_is_refused": "spark/test_data_source.py refuses the same of a batch",
    "spark/test_stream_source.py::test_insert_only_tables": _FEED,
    "spark/test_stream_source.py::test_inserts_only": _FEED,
    "spark/test_stream_source.py::test_changes_replay": _FEED,
    "spark/test_stream_writer.py::test_a_feed_that_changes": "changes by key and replays stay",
    **{
        f"spark/test_stream_writer.py::test_changes_by_key_are_those_of_a_model[{name}": _OTHER_CASE
        for name in ("plain", "bucketed", "key is")
    },
    "spark/test_streaming.py::test_streamed_rows_are_read_while": "unit/streaming reads open batches without Spark",
    "spark/test_stream_writer.py::test_every_batch_once": "the same by the sink stays in test_stream_sink.py",
    "spark/test_time_travel.py::test_a_minor_compaction_does_not_change_the_past[only": _OTHER_CASE,
    "spark/test_time_travel.py::test_a_moment_is_made_of_the_commits_up_to_it": "the script past.test stays",
    "spark/test_views.py::test_in_python": "the script views.test stays",
    "unit/streaming/test_killed.py::test_a_killed_writer_leaves_what_it_committed[50-3": _OTHER_CASE,
}  # fmt: skip


_OF_MANY = "the cases differ in one value each"

# Prefixes of test ids, how many of their cases are for one that `make test` keeps (CI: half as many), and why that is enough.
SAMPLED = {
    "hostile/test_orc_tails.py::test_damaged_tails_are_read_or_refused": (8, _OF_MANY),
    "hostile/test_sql_text.py::test_huge_statements": (6, _OF_MANY),
    "spark/test_random_directories.py::test_both_readers": (4, "the directories are random"),
    "contract/test_lost_answers.py::test_a_verb_is_done_once[mariadb": (12, "every verb stays on PostgreSQL"),
    "contract/test_lost_answers.py::test_a_verb_is_done_once[mysql": (12, "every verb stays on PostgreSQL"),
    "contract/test_mysql.py::TestMysqlServer": (4, "the rules of servers stay whole on PostgreSQL"),
    "contract/test_mysql.py::TestMysql::": (
        6,
        "the contract stays whole on PostgreSQL, SQLite and in memory",
    ),
    "contract/test_mariadb.py::TestMariadbServer": (4, "the rules of servers stay whole on PostgreSQL"),
    "contract/test_mariadb.py::TestMariadb::": (
        6,
        "the contract stays whole on PostgreSQL, SQLite and in memory",
    ),
    "contract/test_wire.py::test_a_cut_at_each_round_trip": (
        2,
        "contract/test_lost_answers.py cuts off each verb",
    ),
    "simulation/test_simulation.py::test_a_hundred_thousand_steps": (6, "seeds of the same simulation"),
    "spark/test_bad_input.py::test_a_damaged_file": (8, _OF_MANY),
    "spark/test_bad_input.py::test_a_wrong_call": (8, _OF_MANY),
    "spark/test_bad_input.py::test_a_wrong_statement": (10, _OF_MANY),
    "spark/test_compaction_order.py::test_files_are_in_order_whatever_was_read": (2, _OF_MANY),
    "spark/test_few_rows_in_driver.py::test_a_compaction_writes_the_files_of_a_job": (4, _OF_MANY),
    "spark/test_insert_files.py::": (2, "formats, buckets and partitions of the same files"),
    "spark/test_few_rows_in_driver.py::test_larger_locations_are_compacted_by_jobs": (6, _OF_MANY),
    "spark/test_few_rows_in_driver.py::test_listed_rows_of_every_type_are_those_of_a_job": (4, _OF_MANY),
    "spark/test_flat.py::": (8, "types and formats are in other files, too"),
    "spark/test_narrowing.py::test_the_driver_writes_the_rows_of_a_job": (6, _OF_MANY),
    "spark/test_small_changes.py::test_random_statements_change_the_same_rows_as_jobs": (4, _OF_MANY),
    "spark/test_odd_names.py::test_names_that_no_table_can_have": (6, _OF_MANY),
    "spark/test_search_argument.py::test_row_groups_are_skipped": (10, _OF_MANY),
    "spark/test_text.py::": (4, _OF_MANY),
}


def left_out(names: Iterable[str]) -> set[str]:
    """Return the tests, of those given by ids relative to ``tests``, that this run leaves out."""
    named = list(names)
    left = set() if ON_CLUSTER else _matching(named, CLUSTER)
    if not ALL:
        return left | _matching(named, EXHAUSTIVE) | _not_drawn(named)
    if ONCE:
        repeated = [prefix for prefix, reason in EXHAUSTIVE.items() if reason in REPEATED]
        return left | _matching(named, repeated) | _not_drawn(named)
    return left


def _matching(named: Sequence[str], prefixes: Iterable[str]) -> set[str]:
    begins = tuple(prefixes)
    return {name for name in named if name.startswith(begins)}


def _not_drawn(named: Sequence[str]) -> set[str]:
    """Return the cases of ``SAMPLED`` that this run leaves out."""
    left: set[str] = set()
    for prefix, (cases_for_one, _) in SAMPLED.items():
        cases = sorted(name for name in named if name.startswith(prefix))
        # Every worker has to draw the same ones, so that there is a seed without the variable, too.
        random = Random(f"{os.environ.get('HIVEACID_TEST_SEED', '1')} {prefix}")
        kept = ceil(len(cases) / (cases_for_one // 2 if ONCE else cases_for_one))
        left.update(set(cases) - set(random.sample(cases, kept)))
    return left


def examples(count: int) -> int:
    """Return how many examples hypothesis tries: all in ``make test-all``, otherwise a quarter.

    >>> @settings(max_examples=examples(200))
    """
    return count if ALL else max(1, count // 4)


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
