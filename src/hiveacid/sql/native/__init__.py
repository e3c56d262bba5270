"""Spark's own ``spark.sql`` on transactional tables: a session, and a parser inside of Spark (classic sessions)."""
