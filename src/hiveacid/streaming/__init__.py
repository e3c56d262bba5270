"""Rows into transactional tables without Spark: Hive's Streaming Ingest API (version 2) in Python."""
