"""The check of a table's invariants, from directory names down to every row.

``files`` checks names, side files and footers without Spark; ``check`` reads the rows as well. Findings and their
severity are defined in ``core.snapshot.check_findings``. A check raises nothing for damaged files: it reports them.
"""
