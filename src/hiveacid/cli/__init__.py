"""Command line: one module per command; the package ``shell`` is the interactive one.

`main` imports a command's module when it is called, so that ``hiveacid --help`` loads neither PySpark nor SQLAlchemy. For
the same reason the modules import these, Arrow and rich inside the functions. Commands that only look at the store or at files
open them without Spark (`options.ConnectionOptions`).

Rows go to standard output, everything else to standard error. An error ends a command with exit code 1, and its message
carries a code. Texts that come from tables or messages are escaped before they reach a terminal (`options.escape_controls`).
"""
