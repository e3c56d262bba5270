"""A history checker in the manner of Elle: clients run random transactions, a pure function judges what they saw."""
