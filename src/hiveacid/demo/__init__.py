"""The main job on real data: the flights out of New York in 2013, loaded, corrected and cleaned up.

Written like a user's program, against the public API only; run by ``hiveacid demo`` and ``make demo``.

`source` reads the flights, `story` holds the steps, and `run` runs them. After each step `compare` checks every table
against `model`, which makes the same changes with plain Spark.
"""
