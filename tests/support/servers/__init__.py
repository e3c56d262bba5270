"""Real servers for tests: databases, object stores, HDFS, Spark Connect, a Spark cluster."""
