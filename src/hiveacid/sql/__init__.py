"""SQL statements: text to values, and values to the verbs of the layers below."""
