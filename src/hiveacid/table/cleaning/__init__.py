"""Deletion of files that no reader needs any more.

``clean_compacted_and_aborted`` removes the sources of finished compactions and the files of aborted transactions;
``clean_after_overwrite`` removes what INSERT OVERWRITE and TRUNCATE replaced. ``remove_files`` plans and carries out
one location (``core.compaction.cleaning_plan`` decides), deletes the files of dropped tables, and says for how long replaced
files stay.

Invariants: a directory is deleted only if no open transaction can read it. The start of the remaining history is
recorded before anything is deleted. Entries that hiveacid or Hive did not create stay.
"""
