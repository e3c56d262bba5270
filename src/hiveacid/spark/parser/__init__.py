"""Table names in Spark SQL text, found with Spark's own parser, and the parser's errors as errors of this project.

``relations`` finds the tables that a statement names. Those that a
query reads have their positions in the text, so that each can be bound to a snapshot. All names of a statement are found so
that Spark never touches a transactional table by itself. ``lexer`` splits text into tokens where Spark's
parser reports too little.
"""
