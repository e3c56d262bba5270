"""Grammar: the text of a statement to its value, after Hive's ``HiveParser.g``.

``parse.parse`` looks at the first word and calls the function of that area (``ddl``, ``dml``, ``merge``, ``show``, ...).
All of them read tokens through one ``Cursor``, which raises ParseError with the position and the expected words.

Expressions and queries are not parsed here. ``Cursor.until`` cuts them out as a ``Slice``, and Spark judges them later.
Clauses whose meaning cannot be kept are refused, never dropped.
"""
