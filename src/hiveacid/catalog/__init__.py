"""The catalog of a connection: databases, tables, partitions and views.

``connection`` opens a warehouse and holds the operations that are not SQL. ``ddl`` creates, alters, drops and truncates them;
``adopt`` takes over tables that other engines wrote. ``convert`` makes a plain
table transactional, ``migrate`` moves tables between stores, ``opening`` finds the store of a warehouse.
``relocate`` makes a copied or moved warehouse usable, and consistent copies. ``validate_definition`` checks names,
locations and properties.

Invariants: a definition changes under an exclusive lock on its table. No two tables or partitions share a location.
"""
