"""A Hive Metastore, 3.1 or 4.x, as transaction store and catalog, over Thrift.

``store.MetastoreStore`` implements all ports over one client; it is composed of ``catalog``, ``compaction_queue`` and the
functions of ``transactions``. ``thrift`` speaks the protocol, ``address`` reads the URL, and ``capabilities`` says
what each generation of metastores can do: no other module asks for a version.

Main flow of a write: open, lock (the request also records what will be written) → allocate write ids → snapshot →
new partitions and statistics just before the commit → commit.

Invariants:

- The metastore decides. It aborts, cleans and initiates by itself, and verbs that are its own business are refused.
- Steps before the commit are repeated after a lost answer. The commit itself is asked for again.
- Counts that Hive answers queries from are removed before rows become visible.
"""
