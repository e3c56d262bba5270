"""The metastore's Thrift interface.

``failover_client`` is what the store calls: it picks a server, retries with back-off, and translates errors.
``connection`` sends one call over ``transport`` (one deadline per call, bounded answers) and,
with Kerberos, ``sasl``. ``methods`` lists the calls; ``protocol`` and ``queue_protocol`` declare their structs as data
(``structs``), so that no code is generated.
"""
