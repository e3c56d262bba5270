"""ORC file tails: what footers say, and giving flat files their true schema by rewriting them."""
