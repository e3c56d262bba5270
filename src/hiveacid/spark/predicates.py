"""What may be left unread for a condition: the entry to the modules that know."""

from __future__ import annotations

from hiveacid.spark.conditions import Conjunct, conjuncts
from hiveacid.spark.pruning import prune_partitions
from hiveacid.spark.search_argument import SearchArgument, search_argument
from hiveacid.spark.simple import Operator, Simple

__all__ = [
    "Conjunct",
    "Operator",
    "SearchArgument",
    "Simple",
    "conjuncts",
    "prune_partitions",
    "search_argument",
]
