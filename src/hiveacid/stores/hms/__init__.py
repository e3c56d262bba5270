"""A real Hive Metastore, 3.1 or 4.x, as transaction store and catalog, over Thrift."""
