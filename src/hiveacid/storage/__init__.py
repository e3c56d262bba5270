"""File systems, listings, and the way from staged files to a table's directories.

``local_file_system`` and ``arrow_file_system`` (S3, Google, Azure, HDFS) implement ``ports.file_system.FileSystem``.
``file_system_routing`` chooses one by a path's scheme and host, and opens it; ``paths`` brings paths into one normal form.
``snapshot_locations`` lists the locations of a table and lets ``core.snapshot.selection`` decide what a snapshot reads.
Writers stage files (``staging``), and the publishing of ``table.write.publish`` gives them their final names.

Invariants: nothing depends on atomic renaming of directories, which object stores lack. A file appears under its final
name with its last byte.
"""
