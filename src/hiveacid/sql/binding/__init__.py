"""Binding: the pieces of a statement's text with table names replaced by views, for Spark to run.

``table_binder.Binder`` serves one statement. For each piece it asks Spark's parser (on Spark Connect: sqlglot) for the names of
tables, looks each one up in the catalog, and replaces it by a temporary view. The view reads the table at the
statement's snapshot, or at the point of ``AS OF`` (``time_travel``).

- ``statement_owner`` decides whether hiveacid or Spark carries out a statement of a native session.
- ``virtual_columns_in_queries`` adds ROW__ID and INPUT__FILE__NAME to the views of queries that name them.
- ``predicates`` finds conditions that reach the files.
- ``time_travel`` evaluates ``AS OF`` (found by Spark's parser, or by ``table_mentions``).
- ``metadata_tables`` reads ``t.history`` and its like.
- ``change_feed_calls`` finds ``hiveacid_changes(...)``, and ``change_feed_rows`` reads its rows.
- ``source_positions`` maps positions in Spark's errors to the user's text.

Views are dropped when the statement ends. DataFrames that were analysed with them stay valid.
"""
