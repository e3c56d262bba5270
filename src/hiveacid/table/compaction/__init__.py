"""Compaction of tables: requests, jobs, and the files that a job writes.

``request_compaction`` queues jobs for a user and runs them in this process if no worker service does.
``run_compaction`` runs one claimed job in a transaction of its own: plan (``core.compaction.plan``), write, publish,
commit. ``write_compacted_files`` writes rows and delete events with Spark; ``stage_without_shuffle`` writes those of a
small location with Arrow, and those of files in key order without sorting them.

Invariants: a job reads only write ids that have ended. Before the commit it compares the numbers of rows and delete
events that it read and wrote. ``table.cleaning`` removes the sources later.
"""
