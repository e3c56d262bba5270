"""Contract of transaction stores and catalogs: tests that every one of them passes."""
