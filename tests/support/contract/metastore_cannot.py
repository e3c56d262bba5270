"""What of the contract of stores a metastore cannot do, test by test, and why."""

from __future__ import annotations

_TIME = "the metastore's own clock cannot be turned"
_NUMBERS = "the commit numbers in Hive's message are transaction ids; see test_conflicts_in_hives_words"
_REASON = "a metastore keeps no reason of an abort"
_QUEUE = "the queue is worked off by Hive's own workers"
_CLEANER = "the metastore's own cleaner forgets aborted ids"
_SEED = "a metastore gives ids itself: nothing can be put there"
_NAMES = "names in a metastore are of lower-case letters, digits and underscores; partition names are escaped"
_SAMPLE = "the contract's table is SORTED BY and its text holds NUL: a metastore refuses both; see test_hive_catalog.py"
_MOMENT = "a metastore counts conflicts from a transaction's beginning, not from its snapshot"
_READERS = "transactions of readers are like all others: get_open_txns of 4.0 would hide them"
_LOCKS = "a lock that was granted in a transaction stays until its end"
_LIMIT = "hive.max.open.txns is a setting of the server"
_YOUNG = (
    "ids of transactions younger than a snapshot are left out while they are open; committed ones are seen"
)
_THREE_LOCKS = (
    "Hive 3 has no EXCL_WRITE, which is EXCLUSIVE there, and lets one SHARED_WRITE wait for another"
)
_STREAMS = "a metastore commits no progress of a stream with the rows: refused, see test_client.py"
_FORGETS = "a metastore does not tell a committed transaction from one it forgot"

CANNOT = {
    "test_the_silent_are_aborted": _TIME,
    "test_a_transaction_keeps_the_timeout_of_its_client": _TIME,
    "test_limits_can_change": _LIMIT,
    "test_show_transactions": _TIME,
    "test_show_locks": _NAMES,
    "test_the_end_of_a_transaction_frees_its_locks": _TIME,
    "test_everything_at_once": _TIME,
    "test_too_many_are_refused_here_too": _LIMIT,
    "test_what_wrote_nothing_is_forgotten_at_once": _CLEANER,
    "test_writers_that_may_still_come": _CLEANER,
    "test_only_early_compactions_are_forgotten": _CLEANER,
    "test_ids_of_a_table_that_was_never_made": _CLEANER,
    "test_housekeeping_drops_the_old": _TIME,
    "test_housekeeping_forgets_no_conflict": _TIME,
    "test_housekeeping_changes_no_list": _TIME,
    "test_transactions_live_by_their_table": _TIME,
    "test_every_transition_of_the_tables_happens": _TIME,
    "test_lock_requests_live_by_their_table": _LOCKS,
    "test_withdrawing": _LOCKS,
    "test_what_was_recorded_keeps_the_lock_too": _LOCKS,
    "test_first_committer_wins": _NUMBERS,
    "test_the_loser_is_told_the_same_again": _REASON,
    "test_the_earliest_winner_is_named": _NUMBERS,
    "test_the_moment_is_that_of_the_snapshot": _NUMBERS,
    "test_asking_again_writes_nothing_twice": _REASON,
    "test_an_early_update_with_a_last_insert_still_conflicts": _MOMENT,
    "test_what_was_committed_before_the_snapshot_is_no_conflict": _MOMENT,
    "test_a_new_snapshot_moves_the_moment_until_something_is_written": _MOMENT,
    "test_commit_after_the_end": _REASON,
    "test_snapshots_of_ended_transactions_are_refused": _REASON,
    "test_states": _FORGETS,
    "test_only_open_transactions_lock": _FORGETS,
    "test_only_open_writers_record": _READERS,
    "test_readers_get_none": _READERS,
    "test_readers_commit_nothing": _READERS,
    "test_any_name_is_data": _NAMES,
    "test_several_of_each": _NAMES,
    "test_odd_names_conflict_literally": _NAMES,
    "test_an_open_transaction_that_writes_after_the_snapshot": _YOUNG,
    "test_ids_that_another_engine_left_are_passed_over": _SEED,
    "test_seeded_ids": _SEED,
    "test_seeding_comes_first": _SEED,
    "test_aborted_ids_stay_until_they_are_forgotten": _CLEANER,
    "test_ids_of_another_table_of_the_name_are_not_forgotten": _CLEANER,
    "test_every_partition_has_to_be_cleaned": _CLEANER,
    "test_unrecorded_writes_need_the_whole_table": _CLEANER,
    "test_open_and_committed_ids_are_never_forgotten": _CLEANER,
    "test_a_loser_is_remembered_where_it_wrote": _CLEANER,
    "test_an_aborted_compaction_stays_aborted": _QUEUE,
    "test_compactions_live_by_their_table": _QUEUE,
    "test_the_life_of_a_job": _QUEUE,
    "test_the_cleaner_learns_nothing_before_the_commit": _QUEUE,
    "test_cleaning_after_a_job_that_wrote_nothing": _QUEUE,
    "test_a_refused_job_leaves_no_transaction": _QUEUE,
    "test_a_failed_job_leaves_its_transaction": _QUEUE,
    "test_a_job_whose_transaction_was_aborted_is_queued_again": _QUEUE,
    "test_a_second_request_is_refused_while_one_is_queued_or_running": _QUEUE,
    "test_jobs_are_claimed_once_oldest_first": _QUEUE,
    "test_wrong_turns": _QUEUE,
    "test_the_job_of_a_lost_worker_is_queued_again": _QUEUE,
    "test_a_worker_may_give_its_job_back": _QUEUE,
    "test_a_renamed_table_takes_its_jobs_along": _QUEUE,
    "test_a_worker_that_never_began_loses_its_job_soon": _QUEUE,
    "test_a_request_is_kept_as_it_was_made": _QUEUE,
    "test_higher_priorities_come_first": _QUEUE,
    "test_workers_take_jobs_of_their_own_pool": _QUEUE,
    "test_the_same_again_is_refused_until_it_is_clean": _QUEUE,
    "test_what_was_not_queued_is_noted": _QUEUE,
    "test_a_queued_job_can_be_aborted": _QUEUE,
    "test_details_are_kept": _QUEUE,
    "test_the_cleaner_waits_for_readers": _QUEUE,
    "test_delayed_cleaning": _QUEUE,
    "test_cleaning_that_failed_is_put_off": _QUEUE,
    "test_old_failures_go_once_something_succeeded": _QUEUE,
    "test_the_time_is_the_store_s": _TIME,
    "test_services_are_known_as_long_as_they_say_so": _QUEUE,
    "test_a_job_nobody_came_back_to_is_queued_again": _QUEUE,
    "test_history_is_kept_short": _QUEUE,
    "test_progress_goes_with_the_commit": _STREAMS,
    "test_a_replay_is_not_written": _STREAMS,
    "test_the_newest_writer_wins": _STREAMS,
    "test_registering_twice_is_once": _STREAMS,
    "test_another_checkpoint_is_no_replay": _STREAMS,
    "test_streams_and_tables_apart": _STREAMS,
    "test_impossible_names": _STREAMS,
    "test_a_conflict_takes_no_progress": _STREAMS,
    "test_a_replay_is_no_conflict": _STREAMS,
    "test_a_stream_nobody_registered": _STREAMS,
    "test_housekeeping_keeps_progress": _STREAMS,
    "test_progress_moves_to_another_store": _STREAMS,
    "test_partitions_come_with_the_commit": _SAMPLE,
    "test_changes_that_do_not_fit_change_nothing": _SAMPLE,
    "test_rows_below_the_base_of_a_later_overwrite_are_refused": "it does not know overwrites: writers look for bases",
}
"""Tests of the contract that a metastore cannot pass, and why."""
CANNOT_HIVE3 = {
    "test_the_matrix[3.1.3-SHARED_READ-EXCL_WRITE]": _THREE_LOCKS,
    "test_the_matrix[3.1.3-SHARED_WRITE-SHARED_WRITE]": _THREE_LOCKS,
    "test_the_matrix[3.1.3-EXCL_WRITE-SHARED_READ]": _THREE_LOCKS,
    "test_the_queue_is_the_same[3.1.3-held7-wanted7-ACQUIRED]": _THREE_LOCKS,
    "test_a_client_is_kept_literally[3.1.3]": "a client's texts go into its SQL as they are: we take the quotes out",
    "test_heartbeats_of_many[3.1.3]": _FORGETS,
}
"""The same for Hive 3.1 only."""
