"""Rules of transactions: lock compatibility, write conflicts, states, commit records, stream progress.

``locks_and_conflicts`` decides which lock request waits for which, and which commits exclude each other; ``states`` which
state may follow another. ``commit_records`` describes a table's commits and rebuilds the snapshot of an earlier moment. It
also decides whether a batch of a stream may be committed.

Invariants: all stores apply these rules; a store only keeps the rows. The first committer of two conflicting
transactions wins.
"""
