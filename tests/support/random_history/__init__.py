"""Random sequences of statements on one table, with a model of its rows."""
