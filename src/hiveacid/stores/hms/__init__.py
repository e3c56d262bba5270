"""A Hive Metastore, 3.1 or 4.x, as transaction store and catalog, over Thrift.

``store.MetastoreStore`` implements all ports over one client. ``client`` makes the calls, which ``protocol`` declares and
``thrift_structs`` encodes; ``transport`` has the connections. ``metastores`` reads the URL and says what each
generation of metastores can do: no other module asks for a version.

- ``catalog`` implements the catalog port. ``definitions`` converts between the metastore's structs and this project's values;
  fields that it does not know survive a change.
- ``transactions`` makes the calls of a transaction's life and converts the answers. It also makes a metastore continue the ids
  of a table that comes from another store. ``locks`` makes the calls about locks. ``commit_steps`` keeps counts of rows, and
  sends new files to the metastore's listeners.
- ``compaction_queue`` asks for compactions, and takes jobs for hiveacid's workers.

Main flow of a write: open, lock (the request also records what will be written) → allocate write ids → snapshot →
new partitions and statistics just before the commit → commit.

Invariants:

- What a transaction writes is recorded in the metastore before the first file exists. Without the record the metastore looks
  for no conflict, and forgets an aborted write id while its files may still be there.
- The metastore decides. It aborts, cleans and initiates by itself, and verbs that are its own business are refused.
- Steps before the commit are repeated after a lost answer. The commit itself is asked for again.
- Counts that Hive answers queries from are removed before rows become visible.
"""
