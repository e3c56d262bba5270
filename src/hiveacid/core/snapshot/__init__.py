"""From the listing of a location to what a snapshot reads, and to findings about the rest.

``listing`` sorts entries by directory, ``selection`` decides what a snapshot reads (Hive's ``AcidUtils.getAcidState``),
``originals`` numbers rows of files without row ids, ``changes`` selects what tells the changes between two snapshots.
``inventory`` explains every entry; ``findings`` with its two companions lists what a check may report.

Invariants: a directory is read, obsolete, aborted, pending or foreign, never two of them. Rows of open or aborted write
ids are never read.
"""
