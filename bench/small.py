"""Statements of a few rows on a table of 10,000, as a service sends them: each one beside the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from measure import Figure
from peers import Peer
from reading import Reading
from results import Result
from sales import SALES, sales

ROWS = 10_000
TIMES = 7
_ONE_ROW = "CAST(NULL AS DATE)" + ", NULL" * 8 + ", 7" + ", NULL" * 13
_STATEMENTS = {
    "DELETE of one ticket": "DELETE FROM {t} WHERE ss_ticket_number = {n}",
    "UPDATE of one ticket": "UPDATE {t} SET ss_quantity = ss_quantity + 1 WHERE ss_ticket_number = {n}",
    "UPDATE, condition with a function": "UPDATE {t} SET ss_quantity = 0 WHERE pmod(ss_ticket_number, 500) = {n}",
    "INSERT of one row": f"INSERT INTO {{t}} SELECT {_ONE_ROW}",
    "MERGE of ten rows": (
        "MERGE INTO {t} t USING (SELECT id * 10 + {n} AS k FROM range(10)) s ON t.ss_ticket_number = s.k "
        "WHEN MATCHED THEN UPDATE SET ss_quantity = 3"
    ),
    "SELECT of one ticket": "SELECT * FROM {t} WHERE ss_ticket_number = {n}",
}


def measured(reading: Reading) -> Iterator[Result]:
    """Yield the results, statement by statement."""
    changed: list[Peer] = [reading.ours, *reading.others]
    for peer in changed:
        peer.create("few", SALES)
        peer.insert("few", sales(reading.meter.spark, 0, ROWS, 1))
    for index, (what, text) in enumerate(_STATEMENTS.items()):
        actions = {peer.name: _action(peer, text, 50 * index) for peer in changed}
        yield Result("small", "store_sales", what, _in_turn(reading, actions), 1.0, "others", ROWS)


def _in_turn(reading: Reading, actions: Mapping[str, Callable[[], object]]) -> Mapping[str, Figure]:
    for action in [
        *actions.values()
    ] * 3:  # Java compiles the code of a statement that runs for the first times
        action()
    return reading.meter.in_turn(actions, TIMES, warm_up=False)


def _action(peer: Peer, text: str, first: int) -> Callable[[], object]:
    numbers = iter(range(first, first + 50))
    return lambda: peer.sql(text.replace("{n}", str(next(numbers))), "few").collect()
