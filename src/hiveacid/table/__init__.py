"""Tables of a connection: `AcidTable` and its operations.

``acid_table`` holds the public methods, also those of ``t.inspect``. It hands each to one package: ``read`` (snapshots, time
travel, change feed), ``write`` (INSERT, UPDATE, DELETE, MERGE, LOAD DATA, streams), ``compaction``, ``cleaning`` and ``check``.
``arrow_read`` reads rows by Arrow. ``context`` holds what every operation needs of the connection, ``connection_caches`` what
it keeps. ``codec_and_writer_options`` chooses layout level and codec. ``definition`` changes a table's definition, and
``partitions`` finds its partitions, and refuses rows
where a new one is to be.

Invariants: every operation runs in a transaction, its own or the caller's. Files are written first and the store commits
last, so an aborted operation leaves only files that no reader sees. A lock is taken before the snapshot that the
operation reads. Packages depend on each other in one direction: write on arrow_read, write and compaction on cleaning and
read, cleaning, check and arrow_read on read.
"""
