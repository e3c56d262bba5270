"""Names and texts of Hive's on-disk format, parsed and formatted.

``names`` for directories and files, ``bucket_property`` for the 32-bit integer of codec version, bucket and statement
id. ``record_keys`` for ROW__ID, ``acid_footer_entries`` for the entries of footers, ``write_id_lists`` for Hive's
valid write-id lists. ``owned_entries`` tells entries that belong to a table from foreign ones.

Invariants: formatting and parsing are inverse. Texts from outside are bounded before they are read, and errors name
the text.
"""
