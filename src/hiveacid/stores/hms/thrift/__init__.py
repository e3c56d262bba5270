"""The metastore's Thrift interface.

``failover_client`` is what the store calls: it picks a server, retries with back-off, and translates errors.
``connection`` sends one call over ``transport`` (one deadline per call, bounded answers, Kerberos).
``protocol`` declares structs and calls in Thrift's own language, which ``structs`` parses: no
code is generated.
"""
