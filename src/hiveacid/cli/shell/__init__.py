r"""``hiveacid shell``: runs statements that a person types, or that come from a pipe.

The loop (`loop`) reads lines (`editor`, or a pipe), splits them into entries (`entries`), and runs each of them.
Statements run in a thread of their own, so that Ctrl-C can cancel their Spark jobs and lock waits (`cancel`). The
\-commands (`backslash_commands`) run at once. Results are fetched up to a limit and printed (`screen`).

Completion asks the catalog only. The history file is readable by its owner only, and statements that may hold a password
are not written to it.
"""
