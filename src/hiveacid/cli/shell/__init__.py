"""``hiveacid shell``: statements typed by a person, or read from a pipe, one after the other."""
