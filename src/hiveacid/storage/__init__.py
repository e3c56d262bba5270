"""File systems, listings and the way from staged files to a table's directories."""
