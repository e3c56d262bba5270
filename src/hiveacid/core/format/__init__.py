"""Names and texts of Hive's on-disk format, parsed and formatted.

``names`` for directories and files, and for virtual columns. ``acid_columns`` for ROW__ID, its 32-bit integer of codec
version, bucket and statement id, the entries of footers, and the buckets of a write. ``write_id_lists`` for Hive's
valid write-id lists.

Invariants: formatting and parsing are inverse. Texts from outside are bounded before they are read, and errors name
the text.
"""
