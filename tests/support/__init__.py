"""The shipped test kit: contracts that every store passes, and what they need."""
