"""The main job on real data: the flights out of New York in 2013, loaded, corrected and cleaned up.

Written like a user's program, against the public API only; run by ``hiveacid demo`` and ``make demo``.
"""
