"""Binding: the rows of a snapshot take the place of the names of tables in the pieces of a statement's text.

``table_binder.Binder`` serves one statement. Spark's parser reads each piece once; one walk over the parsed plan finds
the tables, the conditions directly above them and the calls of functions (`hiveacid.spark.parser.relations`). In the plan, the
rows of each table take the place of its name (`hiveacid.spark.session.bound_plans`).
The rows are those of the statement's snapshot, or of the point of ``AS OF``.

- ``statement_owner`` decides whether hiveacid or Spark carries out a statement of a native session.
- ``parameters`` writes out the names in ``IDENTIFIER(...)``, and the values of ``:name`` and ``?``.
- ``table_sources`` evaluates ``AS OF`` (found by Spark's parser), and reads ``t.history`` and its like, and the rows of
  ``hiveacid_changes(...)``.
- ``view_text`` qualifies the names in the text of a view.
- ``source_positions`` maps positions in Spark's errors to the user's text.
"""
