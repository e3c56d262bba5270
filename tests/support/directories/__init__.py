"""Random table directories, with a model of what they hold."""
