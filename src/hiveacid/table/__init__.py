"""The verbs of a table: scan, insert, overwrite, update, delete, merge, compact, inspect."""
