"""Sessions and processes that die at chosen points."""
