"""Snapshots of a location: selection of the files to read from a listing, and findings about all others.

``directory_listing`` groups entries by directory, and tells those of the table from foreign ones. ``selection`` selects
what a snapshot reads (Hive's ``AcidUtils.getAcidState``). ``scan_plan`` plans the scan of a location, and numbers the rows
of files without row ids. ``change_feed`` selects the directories that tell the changes between two snapshots.
``classify_entries`` gives the state of every entry. ``check_findings`` holds the rules of a check.

Invariants: a directory is read, obsolete, aborted, pending or foreign, never two of them. Rows of open or aborted write
ids are never read.
"""
