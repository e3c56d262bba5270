"""Pages in a browser for operators: tables by need of compaction, transactions, locks, the queue, services.

``figures`` measures tables in the background, ``pages`` makes the data of a page from them and from the store, by the verbs
that SQL and the command line call. ``charts`` draws SVG. ``app`` routes requests and renders the data as HTML by
``templates``, or as JSON. ``actions`` changes something; ``login`` says who may. ``server`` listens.

Invariants: decisions are made in `hiveacid.core`. All state of a page is in its address. A page loads nothing from another
host and runs no script but its own. An action needs an operator, a token of this process, and leaves a line in the audit log.
Needs no Spark.
"""
