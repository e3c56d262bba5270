"""Table names in Spark SQL text, found with Spark's own parser, and the parser's errors as errors of this project.

``relations`` finds the tables that a statement names: those that a
query reads, with their positions in the text, so that each can be bound to a snapshot; or all, so that Spark never touches
a transactional table by itself. ``lexer`` splits text into tokens where Spark's
parser reports too little.
"""
