"""HiveServer2's protocol over native sessions: JDBC, BI tools and dbt as clients of transactional tables.

``server`` accepts connections; each has a thread. ``transports`` reads whole messages with deadlines and limits:
in frames, after a negotiation by SASL, or over HTTP. ``hs2_messages`` decodes a message, and ``service`` carries out its call.
``sessions`` holds a native Spark session for each client session, whose statements run one by one in a thread of
their own (`hiveacid.sql.cancellation`). ``operations`` holds results, which ``results`` reads in Arrow batches and
encodes. ``authentication`` checks passwords and tickets, ``metadata`` answers the calls that list tables.

Invariants:

- A session belongs to the connection that opened it; over HTTP to its user.
- When a connection ends, its sessions are rolled back and their snapshots released.
- Memory grows with the bytes received, not with a length that a client announces. Every wait for a client has a time-out.
- Python holds one Arrow batch of a result, the driver's JVM one partition.
"""
