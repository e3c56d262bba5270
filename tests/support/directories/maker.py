"""Random locations of the ACID layout, legal ones, with the rows that must be read from them.

`make_ids` draws the states of a table's write ids and transactions, `make_location` a directory in which
writers, streaming clients, LOAD DATA, compactions of Hive 3 and 4, cleaners that died half way and strangers
left their files. What has to be read is not told by the directories: it is replayed write id by write id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from support.directories.model import (
    ABORTED,
    COMMITTED,
    TXN_LIMIT,
    AcidRows,
    Content,
    Event,
    Ids,
    Junk,
    Key,
    Location,
    PlainRows,
)

COMPACTED = '{"thisFileVersion":"0","dataFormat":"compacted"}'
TRUNCATED = '{"thisFileVersion":"0","dataFormat":"truncated"}'
_UNION = "HIVE_UNION_SUBDIR_"


def make_location(random: Random, ids: Ids) -> Location:
    """Draw a location."""
    return _Maker(random, ids).make()


@dataclass
class _Directory:
    """A directory of the layout and the write ids that it stands for."""

    path: str
    kind: str  # base, delta, delete_delta, original
    low: int
    high: int
    seen: bool  # by the reader: its compaction, or a write id of it, is committed
    compacted: bool


@dataclass
class _Maker:
    random: Random
    ids: Ids
    files: dict[str, Content] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    made: list[_Directory] = field(default_factory=list)
    events: dict[int, list[Event]] = field(default_factory=dict)  # by write id, in the order of statements
    overwrites: set[int] = field(default_factory=set)
    batches: list[tuple[int, int]] = field(default_factory=list)
    serial: int = 0
    too_new: bool = False

    def make(self) -> Location:
        if self.chance(0.4):
            self.originals()
        write_id, count = 1, len(self.ids.states)
        while write_id <= count:
            if write_id < count and self.chance(0.2):
                high = min(count, write_id + self.random.randint(1, 3))
                self.batch(write_id, high)
                write_id = high + 1
            else:
                self.write(write_id)
                write_id += 1
        reached = [self.random.randint(1, count) for _ in range(self.random.choice((0, 0, 1, 1, 2, 3)))]
        for high in sorted(reached):
            self.compaction(high)
        self.clean()
        self.noise()
        rows = self.replay(self.ids.valid)
        return Location(self.files, frozenset(self.directories), rows, self.too_new)

    # small things --------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def value(self) -> str:
        self.serial += 1
        return f"v{self.serial}"

    def number(self, number: int, width: int = 7) -> str:
        return f"{number:0{self.random.choice((1, width, width, width, width + 3))}d}"

    def replay(self, valid: Callable[[int], bool]) -> dict[Key, str]:
        """Apply the events of valid write ids in their order: the definition of a table's rows."""
        rows: dict[Key, str] = {}
        for write_id, events in sorted(self.events.items()):
            if write_id and not valid(write_id):
                continue
            if write_id in self.overwrites:
                rows.clear()
            for event in events:
                if event.value is None:
                    rows.pop(event.key, None)
                else:
                    rows[event.key] = event.value
        return rows

    def ended_well(self, write_id: int) -> bool:
        return self.ids.final[write_id - 1] == COMMITTED

    def add(self, name: str, kind: str, low: int, high: int, *, seen: bool, compacted: bool = False) -> str:
        assert name not in self.directories
        self.directories.add(name)
        self.made.append(_Directory(name, kind, low, high, seen, compacted))
        if self.chance(0.7):
            self.files[f"{name}/_orc_acid_version"] = Junk(b"2")
        return name

    def sees_some(self, low: int, high: int) -> bool:
        return any(self.ids.valid(one) for one in range(low, high + 1))

    # writers -------------------------------------------------------------------------------------

    def originals(self) -> None:
        """Write files as before a conversion: copies, sub-directories of UNION ALL, Spark's and Trino's names."""
        names = [
            f"{bucket:06d}_0{copy}" for bucket in range(3) for copy in ("", "_copy_1", "_copy_2", "_copy_10")
        ]
        names += [f"{_UNION}{n}/00000{b}_0" for n in (1, 2) for b in (0, 1)]
        names += ["old.d/000000_0", "old.d/deeper/000001_0"]
        names += ["000000_20240102030405060708090", "part-00000-1f2e.c000.snappy.orc", "00000_1"]
        chosen = self.random.sample(names, self.random.randint(1, 5))
        self.raw_files("", chosen, 0, 0)
        for name in chosen:
            top = name.partition("/")[0]
            if all(one.path != top for one in self.made):
                self.made.append(_Directory(top, "original", 0, 0, seen=True, compacted=False))

    def raw_files(self, directory: str, names: Iterable[str], write_id: int, statement: int) -> None:
        """Write files without ACID columns; their rows are numbered through per bucket, in the order of paths."""
        numbers: dict[int, int] = {}
        for name in sorted(names):
            path = f"{directory}/{name}" if directory else name
            if self.chance(0.1):
                self.files[path] = Junk(b"")
                continue
            file = name.rpartition("/")[2]
            bucket = int(file.partition("_")[0]) if file[0].isdigit() else 0
            values = tuple(self.value() for _ in range(self.random.randint(1, 4)))
            self.files[path] = PlainRows(values)
            for value in values:
                row_id = numbers.get(bucket, 0)
                numbers[bucket] = row_id + 1
                key = (write_id, 1 << 29 | bucket << 16 | statement, row_id)
                self.events.setdefault(write_id, []).append(Event(key, write_id, value))

    def write(self, write_id: int) -> None:
        """Write one transaction's statements."""
        what = self.random.choice(
            ("insert", "insert", "delete", "update", "change", "many", "overwrite", "load", "no")
        )
        self.events[write_id] = []
        numbered = what == "many" or self.chance(0.8)
        match what:
            case "insert":
                self.insert(write_id, 0, numbered=numbered)
            case "delete":
                self.delete(write_id, 0, numbered=numbered)
            case "update":  # Hive 4 numbers the two halves, Hive 3 and Trino do not
                self.delete(write_id, 0, numbered=numbered)
                self.insert(write_id, 1 if numbered and self.chance(0.5) else 0, numbered=numbered)
            case "many":
                for statement in range(self.random.randint(2, 4)):
                    (self.insert if self.chance(0.6) else self.delete)(write_id, statement, numbered=True)
            case "overwrite":
                self.overwrite(write_id)
            case "load":
                self.load(write_id)

    def name(self, kind: str, low: int, high: int, statement: int | None) -> str:
        tail = "" if statement is None else f"_{self.number(statement, 4)}"
        return f"{kind}_{self.number(low)}_{self.number(high)}{tail}"

    def insert(self, write_id: int, statement: int, *, numbered: bool) -> None:
        name = self.name("delta", write_id, write_id, statement if numbered else None)
        seen = self.ids.valid(write_id)
        directory = self.add(name, "delta", write_id, write_id, seen=seen)
        self.bucket_files(directory, write_id, statement)

    def bucket_files(self, directory: str, write_id: int, statement: int) -> None:
        old = self.chance(0.1) and not statement  # bucket codec V0: the number alone
        nested = f"/{_UNION}1" if self.chance(0.05) else ""
        for bucket in self.random.sample((0, 1, 2, 5000), self.random.randint(1, 2)):
            number = bucket if old else (1 << 29 | (bucket & 4095) << 16 | _low_bits(bucket, statement))
            events = tuple(
                Event((write_id, number, row_id), write_id, self.value())
                for row_id in range(self.random.randint(1, 4))
            )
            self.events[write_id] += events
            self.files[f"{directory}{nested}/{self.bucket_name(bucket)}"] = AcidRows(events)
        if self.chance(0.1):
            self.files[f"{directory}/bucket_00003"] = Junk(b"")  # Hive 3 leaves empty ones

    def bucket_name(self, bucket: int) -> str:
        attempt = self.random.choice(("", "", "_0", "_12"))
        return f"bucket_{bucket:05d}{attempt}" if self.chance(0.9) else f"bucket_{bucket}{attempt}"

    def delete(self, write_id: int, statement: int, *, numbered: bool) -> None:
        """Delete rows that the writer sees: of ended write ids, of its own earlier statements."""
        rows = self.replay(lambda one: one == write_id or (one < write_id and self.ended_well(one)))
        if not rows:
            return
        keys = self.random.sample(sorted(rows), min(len(rows), self.random.randint(1, 3)))
        events = [Event(key, write_id, None) for key in keys]
        self.events[write_id] += events
        name = self.name("delete_delta", write_id, write_id, statement if numbered else None)
        directory = self.add(name, "delete_delta", write_id, write_id, seen=self.ids.valid(write_id))
        self.event_files(directory, events)

    def event_files(self, directory: str, events: Iterable[Event]) -> None:
        by_bucket: dict[int, list[Event]] = {}
        for event in events:
            number = event.key[1]
            by_bucket.setdefault(number >> 16 & 4095 if number >> 29 else number, []).append(event)
        for bucket, inside in by_bucket.items():
            ordered = sorted(inside, key=lambda event: (event.key, -event.current))
            self.files[f"{directory}/{self.bucket_name(bucket)}"] = AcidRows(tuple(ordered))

    def overwrite(self, write_id: int) -> None:
        """INSERT OVERWRITE, TRUNCATE (an empty base with its side file), LOAD DATA OVERWRITE."""
        self.overwrites.add(write_id)
        directory = self.add(
            f"base_{self.number(write_id)}", "base", write_id, write_id, seen=self.ids.valid(write_id)
        )
        match self.random.choice(("rows", "rows", "truncate", "empty", "load")):
            case "rows":
                self.bucket_files(directory, write_id, 0)
            case "truncate":
                self.files[f"{directory}/_metadata_acid"] = Junk(TRUNCATED.encode())
            case "load":
                self.files.pop(f"{directory}/_orc_acid_version", None)
                self.raw_files(directory, ["000000_0", "000001_0"], write_id, 0)

    def load(self, write_id: int) -> None:
        """LOAD DATA: files without ACID columns in a delta, no version file."""
        name = f"delta_{self.number(write_id)}_{self.number(write_id)}_0000"
        directory = self.add(name, "delta", write_id, write_id, seen=self.ids.valid(write_id))
        self.files.pop(f"{directory}/_orc_acid_version", None)
        names = self.random.sample(
            ("000000_0", "000001_0", "000002_0", "000000_0_copy_1"), self.random.randint(1, 3)
        )
        self.raw_files(directory, names, write_id, 0)

    def batch(self, low: int, high: int) -> None:
        """Write a streaming batch: one growing file a bucket, read as far as its side file says."""
        self.batches.append((low, high))
        directory = self.add(
            f"delta_{self.number(low)}_{self.number(high)}",
            "delta",
            low,
            high,
            seen=self.sees_some(low, high),
        )
        for write_id in range(low, high + 1):
            self.events[write_id] = []
        for bucket in self.random.sample((0, 1), self.random.randint(1, 2)):
            events = [
                Event((write_id, 1 << 29 | bucket << 16, row_id), write_id, self.value())
                for write_id in range(low, high + 1)
                for row_id in range(self.random.randint(0, 3))
            ]
            for event in events:
                self.events[event.current].append(event)
            self.streamed_file(f"{directory}/bucket_{bucket:05d}", events)

    def streamed_file(self, path: str, events: list[Event]) -> None:
        if not events:
            self.files[path] = Junk(b"")
        elif self.chance(0.5):
            self.files[path] = AcidRows(tuple(events))
        else:  # what lies behind the valid length is not a row: here a repetition that would be seen
            flushed = [event for event in events if self.ended_well(event.current) or self.chance(0.5)]
            self.files[path] = AcidRows((*flushed, *events[:2]), readable=len(flushed))
            torn = self.random.choice((b"", b"\0\0\1"))
            self.files[f"{path}_flush_length"] = Junk(b"LENGTH" + torn)

    # compactions ---------------------------------------------------------------------------------

    def compaction(self, high: int) -> None:
        """Let Hive 3 or 4 (``_v``) compact up to a write id, at a time when all up to it had ended."""
        known = all(self.ids.states[n - 1] in (COMMITTED, ABORTED) for n in range(1, high + 1))
        suffix, seen = self.visibility(known=known)
        if self.chance(0.5):
            self.major(high, suffix, known=known, seen=seen)
        else:
            self.minor(high, suffix, seen=seen)

    def visibility(self, *, known: bool) -> tuple[str, bool]:
        """Draw a suffix, and whether the reader believes in the directory."""
        good = [n for n in range(1, TXN_LIMIT + 1) if n not in (*self.ids.open_txns, *self.ids.aborted_txns)]
        kind = self.random.choice(("none", "open", "aborted", "later") + (("good",) * 4 if known else ()))
        chosen = {
            "open": self.random.choice(self.ids.open_txns),
            "aborted": self.random.choice(self.ids.aborted_txns),
            "later": TXN_LIMIT + 3,
            "good": self.random.choice(good),
        }.get(kind)
        return ("" if chosen is None else f"_v{self.number(chosen)}"), kind in ("none", "good")

    def inside(self, high: int) -> list[int]:
        """Return the write ids of what a compaction up to ``high`` reads: no batch that goes beyond it."""
        cut = [low for low, top in self.batches if low <= high < top]
        return [n for n in range(1, high + 1) if n < min(cut, default=high + 1) and self.ended_well(n)]

    def base_before(self, high: int) -> int:
        """Return the write id of the base that a compaction up to ``high`` starts from."""
        bases = [one.high for one in self.made if one.kind == "base" and one.seen and one.high <= high]
        return max((*bases, *(n for n in self.overwrites if n <= high and self.ended_well(n))), default=0)

    def major(self, high: int, suffix: str, *, known: bool, seen: bool) -> None:
        base = self.base_before(high)
        if base == high and not suffix:
            return
        name = f"base_{self.number(high)}{suffix}"
        if any(_same(name, one.path) for one in self.made):
            return
        directory = self.add(name, "base", high, high, seen=seen and known, compacted=True)
        if not suffix:
            self.files[f"{directory}/_metadata_acid"] = Junk(COMPACTED.encode())
            self.too_new = self.too_new or not known
        chosen = set(self.inside(high))
        rows = self.replay(lambda one: one in chosen)
        self.event_files(directory, [Event(key, key[0], value) for key, value in rows.items()])

    def minor(self, high: int, suffix: str, *, seen: bool) -> None:
        base = self.base_before(high)
        chosen = self.inside(high)
        live = [one.low for one in self.made if self.is_live(one, base, chosen)]
        if not live:
            return
        low = min(live)
        kept = [e for n in chosen if n > base or self.straddles(n, base) for e in self.events[n] if n >= low]
        names = {k: f"{k}_{self.number(low)}_{self.number(high)}{suffix}" for k in ("delta", "delete_delta")}
        if any(_same(name, one.path) for one in self.made for name in names.values()):
            return
        for kind, name in names.items():
            events = [event for event in kept if (event.value is None) == (kind == "delete_delta")]
            if events or (not suffix and self.chance(0.5)):  # Hive 3 leaves the other half, without rows
                self.event_files(self.add(name, kind, low, high, seen=seen, compacted=True), events)

    def is_live(self, one: _Directory, base: int, chosen: list[int]) -> bool:
        if one.kind not in ("delta", "delete_delta") or one.high <= base or one.compacted:
            return False
        return any(one.low <= n <= one.high for n in chosen)

    def straddles(self, write_id: int, base: int) -> bool:
        return any(low <= write_id <= top and low <= base < top for low, top in self.batches)

    # cleaner and strangers -----------------------------------------------------------------------

    def clean(self) -> None:
        """Remove some of what others cover that the reader sees."""
        for one in list(self.made):
            covers = [other for other in self.made if other is not one and _covers(other, one)]
            if covers and self.chance(0.4):
                self.remove(one)

    def remove(self, one: _Directory) -> None:
        self.made.remove(one)
        self.directories.discard(one.path)
        for path in [p for p in self.files if p == one.path or p.startswith(f"{one.path}/")]:
            del self.files[path]

    def noise(self) -> None:
        """Add what nobody reads: hidden files, staging directories, foreign files and directories."""
        strange = (
            ".hive-staging_hive_2024-01-01_00-00-00_000_1-1/-ext-10000/000000_0",
            "_tmp.base_0000009/bucket_00000",
            ".hiveacid-staging-7-ab12cd/bucket_00000",
            "_SUCCESS",
            ".000777_0.crc",  # of no file: Hadoop refuses a file beside wrong checksums
            "notes/readme.orc",
            "delta_x=1/000000_0",
            "archive.d/base_0000001/bucket_00000",
        )
        for path in self.random.sample(strange, self.random.randint(0, 3)):
            self.files[path] = Junk(b"not ORC")
        inside = (
            "part-00000.orc",
            ".bucket_00777.crc",
            "_tmp_bucket_00007",
            "notes.txt",
            "_temporary/bucket_00009",
        )
        for one in self.made:
            if one.kind != "original" and self.chance(0.15):
                self.files[f"{one.path}/{self.random.choice(inside)}"] = Junk(b"not ORC")


def _low_bits(bucket: int, statement: int) -> int:
    """Return the lowest 16 bits of a bucket property: a bucket above 4095 borrows from the statement's."""
    return statement | (bucket >> 12) << 4 if bucket > 4095 else statement


def _same(name: str, other: str) -> bool:
    """Tell whether two names differ in their padding only."""
    return [part.lstrip("v").lstrip("0") for part in name.split("_")] == [
        part.lstrip("v").lstrip("0") for part in other.split("_")
    ]


def _covers(other: _Directory, one: _Directory) -> bool:
    """Tell whether the reader finds in ``other`` all that he needs of ``one``."""
    if not other.seen:
        return False
    if other.kind == "base":
        return (
            one.kind == "original" or one.high < other.high or (one.high == other.high and one.kind != "base")
        )
    if (
        other.kind not in ("delta", "delete_delta")
        or not other.compacted
        or one.kind not in ("delta", "delete_delta")
    ):
        return False
    return other.low <= one.low and one.high <= other.high and (other.low, other.high) != (one.low, one.high)
