"""ORC files without Spark: footers read and rewritten, statistics, stripes spliced, rows written from Arrow.

Main flows:

- Planning: ``tail`` parses postscript, footer and stripe statistics (on ``wire_format``); ``footer_summary`` and
  ``column_statistics`` reduce them to the facts that a scan needs, which a cache keeps.
- Publishing: ``acid_footer`` turns a flat staged file into an ACID file by rewriting its footer; ``key_order`` proves its
  key order and gives the key index.
- Streaming and compaction: ``writing`` makes stripes from Arrow batches, and joins the stripes of several files
  under one footer; ``key_order`` proves the order of the rows.
- Reading: ``build_delete_bitmap`` turns delete events into a bitmap of deleted row ids.

Invariants: a damaged or hostile file raises BadFileError before it costs much memory; a footer never claims more than
the statistics prove.
"""
