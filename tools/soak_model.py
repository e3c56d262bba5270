"""What the soak's table must hold: rows of streams as they commit, updates and deletes of one session."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hiveacid.errors import TransactionAbortedError
from hiveacid.streaming import Connection

RANGE = 10**9
"""The ids of a stream begin at its number times this."""
_ABORTED = 0.1  # share of the transactions


class WrongError(Exception):
    """Something is not as it must be."""


@dataclass
class Stream:
    """One writer: rows of ascending ids, each with v = 0. ``batches``: the next id after each commit."""

    number: int
    store: str
    warehouse: str
    settings: Mapping[str, str]
    seed: int
    over: threading.Event = field(default_factory=threading.Event)
    batches: list[int] = field(default_factory=list)
    asked: int = 0
    """The next id after the commit that is under way, or was last."""
    error: BaseException | None = None
    thread: threading.Thread | None = None

    @property
    def first(self) -> int:
        """Return the first id."""
        return self.number * RANGE

    def start(self) -> None:
        """Begin to write."""
        self.asked = self.first
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """End."""
        self.over.set()
        if self.thread is not None:
            self.thread.join()
        self.require_well()

    def require_well(self) -> None:
        """Raise WrongError if the stream broke."""
        if self.error is not None:
            raise WrongError(
                f"stream {self.number}: {type(self.error).__name__}: {self.error}"
            ) from self.error

    def _run(self) -> None:
        chance = random.Random(f"{self.seed}-{self.number}")  # noqa: S311 - a seed
        try:
            with Connection(
                "t", warehouse=self.warehouse, store=self.store, settings=self.settings
            ) as connection:
                while not self.over.is_set():
                    try:
                        self._write(connection, chance)
                    except TransactionAbortedError:  # this machine slept for longer than hive.txn.timeout
                        continue
                    self.over.wait(chance.uniform(0.2, 1.0))
        except BaseException as error:  # noqa: BLE001 - the main thread shows it
            self.error = error

    def _write(self, connection: Connection, chance: random.Random) -> None:
        begin = self.batches[-1] if self.batches else self.first
        end = begin + chance.randint(1, 100)
        connection.begin_transaction()
        connection.write([{"id": number, "v": 0, "p": number % 2} for number in range(begin, end)])
        if chance.random() < _ABORTED:
            connection.abort()
            return
        self.asked = end
        connection.commit()
        self.batches.append(end)


class Model:
    """The rows that the table must hold: by stream, v by id."""

    def __init__(self, streams: int) -> None:
        self._rows: list[dict[int, int]] = [{} for _ in range(streams)]
        self._absorbed = [number * RANGE for number in range(streams)]

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self._rows))

    def absorb(self, streams: Sequence[Stream]) -> list[int]:
        """Take in what has been committed; return how many commits of each stream that were."""
        seen = []
        for stream in streams:
            batches = list(stream.batches)
            seen.append(len(batches))
            if batches:
                start = self._absorbed[stream.number]
                self._rows[stream.number].update((number, 0) for number in range(start, batches[-1]))
                self._absorbed[stream.number] = batches[-1]
        return seen

    def choose(self, chance: random.Random, streams: Sequence[Stream], every: int) -> tuple[str, list[int]]:
        """Choose a range of rows that are there, every so many of it; return a condition and the ids."""
        self.absorb(streams)
        stream = chance.choice(streams)
        rows = self._rows[stream.number]
        low, high = min(rows, default=stream.first), self._absorbed[stream.number]
        middle = low + (high - low) // 2
        begin, end = (
            (low, middle) if every == 1 else (chance.randint(low, middle), chance.randint(middle, high))
        )
        rest = chance.randrange(every)
        ids = [number for number in rows if begin <= number < end and number % every == rest]
        return f"id >= {begin} AND id < {end} AND id % {every} = {rest}", ids

    def count_up(self, ids: Iterable[int]) -> None:
        """Note an update."""
        for number in ids:
            self._rows[number // RANGE][number] += 1

    def delete(self, ids: Iterable[int]) -> None:
        """Note a delete."""
        for number in ids:
            del self._rows[number // RANGE][number]

    def compare(
        self, rows: Sequence[tuple[int, int]], before: Sequence[int], streams: Sequence[Stream]
    ) -> None:
        """Raise WrongError unless rows are those of each stream at one of its commits since ``before``."""
        found: list[dict[int, int]] = [{} for _ in self._rows]
        for number, value in rows:
            found[number // RANGE][number] = value
        if sum(map(len, found)) != len(rows):
            raise WrongError("a row is there twice")
        for stream, seen, expected in zip(streams, found, self._rows, strict=True):
            start = self._absorbed[stream.number]
            ends = {start, *stream.batches[before[stream.number] :], stream.asked}
            if not any(seen == expected | dict.fromkeys(range(start, end), 0) for end in ends):
                raise WrongError(_difference(stream, seen, expected, start, max(ends)))


def _difference(stream: Stream, seen: dict[int, int], expected: dict[int, int], start: int, end: int) -> str:
    everything = expected | dict.fromkeys(range(start, end), 0)
    missing = sorted(expected.keys() - seen.keys())
    surplus = sorted(seen.keys() - everything.keys())
    other = [number for number in sorted(seen.keys() & expected.keys()) if seen[number] != expected[number]]
    return (
        f"rows of stream {stream.number}: missing {len(missing)} {missing[:5]}, surplus {len(surplus)} {surplus[:5]}, "
        f"other values {len(other)} {other[:5]}, or half of a commit is seen"
    )
