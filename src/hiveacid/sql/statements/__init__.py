"""Statements: one frozen value per statement, made by `sql.grammar` and carried out by `sql.execute`.

The modules ``queries``, ``dml``, ``definitions`` and ``administration`` define them by area, ``values`` holds
their parts. Text that Spark will judge (expressions, queries) is a ``Slice`` with its position and its tokens.

Invariants: values are compared without positions; names are in lower case, as Hive keeps them.
"""
