"""Transaction stores and catalogs: SQL databases, and one in memory that is the reference for all others."""
