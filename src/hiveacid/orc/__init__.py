"""ORC file tails: read statistics and types, nest flat files into the ACID schema, search arguments."""
