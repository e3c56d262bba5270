"""A connection and its catalog verbs: databases, tables, partitions, adoption of existing directories."""
