"""Example on real data: the flights out of New York in 2013, loaded, corrected, compacted and cleaned.

It uses only the public API, like a user's program. ``make demo`` runs it.

`source` reads the flights, `story` holds the steps, and `run` runs them. After each step every table is compared
with `model`, which makes the same changes with plain Spark.
"""
