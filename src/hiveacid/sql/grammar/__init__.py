"""Grammar: parses the text of a statement into its value, after Hive's ``HiveParser.g``.

``parse.parse`` looks at the first word and calls the function of that area (``create_alter_drop``, ``dml``,
``admin``, ...). All of them read tokens through one ``Cursor``, which raises ParseError with the position and the expected words.

In a docstring, "parse behind X" means that the caller has read the word X and the function parses the rest.

Expressions and queries are not parsed here. ``Cursor.until`` cuts them out as a ``Slice``, and Spark parses them later.
Clauses whose meaning cannot be kept are refused, never ignored.
"""
