"""Compaction of tables: requests, jobs, and the files that a job writes.

``compact`` queues jobs for a user and runs them here where no worker service does. ``job`` carries out one claimed job
in a transaction of its own: plan (``core.compaction.plan``), write, publish, commit. ``write`` writes rows and delete
events with Spark; ``presorted`` copies files whose rows are in key order without sorting them. ``report`` is the result.

Invariants: a job reads only write ids that have ended. Its rows and delete events are counted against what it read
before the commit. Sources are removed later, by ``table.cleaning``.
"""
