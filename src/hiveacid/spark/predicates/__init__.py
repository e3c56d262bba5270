"""Push-down: from the text of a condition to the partitions and row groups that a scan may skip.

Main flow: ``column_conditions`` lets Spark parse and analyse a condition, and splits it into conjuncts;
``predicate_reader`` reads each analysed tree as a predicate (``core.predicates``). Two consumers follow:

- ``column_conditions`` drops partitions in which the conjuncts over partition columns cannot hold;
- ``search_argument`` widens the comparisons until no reader can skip a matching row, and passes them to the ORC reader.

Invariant: the result only says what need not be read. The scan still applies the whole condition to every row, and a
conjunct that is not understood is ignored.
"""
