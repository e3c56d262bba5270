"""SQL: parses statements into frozen values, and carries them out by calls to tables and the catalog.

``session.AcidSession.sql`` runs one statement:

1. ``grammar`` parses the text into a value of ``statements``. The text is tokenised once; pieces that Spark will
   judge (expressions, queries) keep their tokens and their position (``Slice``).
2. ``execute.dispatch`` finds the executor of the statement's type and passes it an ``ExecutionContext``.
3. The executor calls a verb of a table or of the catalog. ``binding`` prepares the pieces of text for Spark: it
   puts rows of the statement's snapshot in the place of each name of a table.

``native`` lets ``spark.sql`` do the same: ``binding.statement_owner`` first decides whether hiveacid or Spark carries out a
statement.

Invariants:

- All tables of one statement are read at one snapshot.
- A statement that fails has changed nothing.
- Spark gets the user's own text. Its errors are translated, and point into that text.
- Executors do not know the session, so that no modules import each other.
"""
