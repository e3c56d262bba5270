"""Binding: the pieces of a statement's text in which rows of a snapshot stand for the names of tables.

``table_binder.Binder`` serves one statement. For each piece it asks Spark's parser for the names of
tables and looks each one up in the catalog. In Spark's parsed plan of a query or an expression the rows of the table take
the place of its name (`hiveacid.spark.session.bound_plans`).
The rows are those of the statement's snapshot, or of the point of ``AS OF`` (``time_travel``).

- ``statement_owner`` decides whether hiveacid or Spark carries out a statement of a native session.
- ``identifier_clauses`` writes out the names in ``IDENTIFIER(...)``.
- ``virtual_columns_in_queries`` tells which tables need ROW__ID and INPUT__FILE__NAME.
- ``predicates`` finds conditions that reach the files.
- ``time_travel`` evaluates ``AS OF`` (found by Spark's parser).
- ``metadata_tables`` reads ``t.history`` and its like.
- ``change_feed_calls`` finds ``hiveacid_changes(...)``, and ``change_feed_rows`` reads its rows.
- ``source_positions`` maps positions in Spark's errors to the user's text.
"""
