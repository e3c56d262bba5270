"""Tables written by real engines, with what the engine itself read (``golden/README.md``).

``scenarios()`` lists every state of every table; ``unpack(golden, directory)`` puts one there to work on::

    @pytest.mark.parametrize("golden", scenarios(scenario="crud"), ids=str)
    def test_it(golden: Golden, tmp_path: Path) -> None:
        location = unpack(golden, tmp_path / "t")
        acid.adopt(golden.show_create_table, location=str(location), valid_write_ids=golden.valid_write_ids)
"""

from __future__ import annotations

import atexit
import csv
import json
import re
import shutil
import tarfile
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parents[2] / "golden" / "tables.tar.xz"
ENGINES = ("hive-3.1.3", "hive-4.0.1", "trino-476")

# Cases of tests of all tables that repeat others: tables of the same engine with the same kinds of files stay.
REPEATED_TABLES = (
    "hive-3.1.3/insert_only_orc]", "hive-3.1.3/insert_only_textfile]", "hive-4.0.1/multi_insert]", "trino-476/repeat]",
    "hive-3.1.3/iow]", "hive-3.1.3/load_data]", "hive-3.1.3/merge]", "hive-3.1.3/part_bucketed]",
    "hive-4.0.1/all_types]", "hive-4.0.1/bucketed]", "hive-4.0.1/crud]", "hive-4.0.1/iow]", "hive-4.0.1/minor_major]",
    "trino-476/aborted]", "trino-476/bucket]", "trino-476/crud]", "trino-476/part_ctas]", "trino-476/types]",
)  # fmt: skip

_NO_OPEN = 2**63 - 1
_RIGHT_ROWS = {
    # Hive 3.1.3 can't read a table whose only base belongs to an aborted INSERT OVERWRITE; that changed no row.
    ("hive-3.1.3", "aborted", "3_aborted_iow"): "2_minor_uncleaned",
    ("hive-3.1.3", "aborted", "4_major_uncleaned"): "2_minor_uncleaned",
    ("hive-3.1.3", "aborted", "z_after_clean"): "2_minor_uncleaned",
}


@dataclass(frozen=True)
class RowId:
    """Hive's ROW__ID."""

    write_id: int
    bucket: int
    row_id: int


@dataclass(frozen=True)
class Golden:
    """One state of one table; ``snapshot`` is empty for Trino, which has one a scenario.

    ``rows``: what the engine read, in the order of the row ids, one dict a row. Hive: typed values as JSON
    has them, ``row__id`` (writeid, bucketid, rowid; transactional tables only) and ``input__file__name``
    relative to the table. Trino: texts (None for NULL), the file under ``$path``.
    ``row_keys``: row ids of the live rows, sorted; empty where there are none (insert-only tables).
    Trino's come from an independent merge, with the partition and the row's values.
    """

    engine: str
    scenario: str
    snapshot: str
    table: str  # db.name
    show_create_table: str
    valid_write_ids: str
    valid_txns: str | None
    read_error: bool
    rows: tuple[dict[str, Any], ...] = field(repr=False)
    row_keys: tuple[RowId, ...] = field(repr=False)
    merged: tuple[dict[str, Any], ...] = field(repr=False, default=())
    meta: dict[str, Any] = field(repr=False, default_factory=dict)
    script: str = field(repr=False, default="")

    def __str__(self) -> str:
        """Return the name that a test gets."""
        return "/".join(filter(None, (self.engine, self.scenario, self.snapshot)))

    @property
    def transactional(self) -> str:
        """Return ``full``, ``insert_only`` or ``none``."""
        text = self.show_create_table.lower()
        if "'transactional'='true'" not in text:
            return "none"
        return "insert_only" if "insert_only" in text else "full"


def scenarios(
    *, engine: str | None = None, scenario: str | None = None, snapshot: str | None = None
) -> tuple[Golden, ...]:
    """List the states that match; without arguments all, in the order in which they were made."""
    wanted = (engine, scenario, snapshot)
    return tuple(
        golden
        for golden in _all()
        if all(
            w in (None, has)
            for w, has in zip(wanted, (golden.engine, golden.scenario, golden.snapshot), strict=True)
        )
    )


def find(engine: str, scenario: str, snapshot: str = "") -> Golden:
    """Return one state; KeyError if there is none of that name."""
    found = scenarios(engine=engine, scenario=scenario, snapshot=snapshot)
    if len(found) != 1:
        raise KeyError((engine, scenario, snapshot))
    return found[0]


def unpack(golden: Golden, target: Path) -> Path:
    """Copy the table's directory to ``target`` (which must not be there), empty directories included; return it."""
    shutil.copytree(_root() / str(golden) / "table", target)
    return target


@cache
def _root() -> Path:
    """Unpack the archive once a process."""
    root = Path(tempfile.mkdtemp(prefix="golden-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(root, filter="data")
    return root


@cache
def _all() -> tuple[Golden, ...]:
    found = []
    for engine in ENGINES:
        for folder in sorted(path for path in (_root() / engine).iterdir() if path.is_dir()):
            if engine.startswith("trino"):
                found.append(_trino(engine, folder))
                continue
            found += [_hive(engine, folder, path.parent) for path in sorted(folder.glob("*/meta.json"))]
    return tuple(found)


def _hive(engine: str, folder: Path, state: Path) -> Golden:
    meta = json.loads((state / "meta.json").read_text(encoding="utf-8"))
    right = folder / _RIGHT_ROWS.get((engine, folder.name, state.name), state.name)
    lines = (right / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    rows = tuple(json.loads(line) for line in lines)
    ids = [row["row__id"] for row in rows if "row__id" in row]
    return Golden(
        engine=engine,
        scenario=folder.name,
        snapshot=state.name,
        table=meta["writeids"]["table"],
        show_create_table=meta["show_create_table"],
        valid_write_ids=meta["writeids"]["validWriteIdList"],
        valid_txns=meta["writeids"]["validTxnList"],
        read_error=meta["read_error"],
        rows=rows,
        row_keys=tuple(RowId(i["writeid"], i["bucketid"], i["rowid"]) for i in ids),
        meta=meta,
        script=(folder / "script.sql").read_text(encoding="utf-8"),
    )


def _trino(engine: str, folder: Path) -> Golden:
    create = (folder / "show_create.sql").read_text(encoding="utf-8")
    table = create.split()[2].partition(".")[2]  # CREATE TABLE catalog.db.name (
    merged = tuple(
        {
            "partition": row["partition"] or None,
            "row_id": RowId(int(row["writeid"]), int(row["bucketproperty"]), int(row["rowid"])),
            "values": json.loads(row["row(pyorc)"]),
        }
        for row in _tsv(folder / "rowids.tsv")
    )
    return Golden(
        engine=engine,
        scenario=folder.name,
        snapshot="",
        table=table,
        show_create_table=_in_hives_words(create),
        valid_write_ids=_write_id_list(table, json.loads((folder / "valid_write_ids.json").read_text())),
        valid_txns=None,
        read_error=False,
        rows=tuple(
            {k: None if v == "\\N" else v for k, v in row.items()} for row in _tsv(folder / "expected.tsv")
        ),
        row_keys=tuple(row["row_id"] for row in merged),
        merged=merged,
        script=(folder / "statements.sql").read_text(encoding="utf-8"),
    )


def _in_hives_words(create: str) -> str:
    """Return the statement with Hive's clauses in place of Trino's WITH (...)."""
    head, _, rest = create.partition("\n)\nWITH (\n")
    head = head.replace("CREATE TABLE hive.", "CREATE TABLE ", 1)
    facts = dict(re.findall(r"(\w+) = (.*?),?\n", rest))
    assert set(facts) <= {*_CLAUSES, *_PROPERTIES}
    clauses = []
    for name in re.findall(r"'(\w+)'", facts.get("partitioned_by", "")):
        column = re.search(rf",\n   {name} (.*)", head)
        assert column is not None
        head = head.replace(column[0], "")
        clauses.append(f"PARTITIONED BY (`{name}` {column[1]})")
    clauses += [
        f"CLUSTERED BY ({name}) INTO {facts['bucket_count']} BUCKETS"
        for name in re.findall(r"'(\w+)'", facts.get("bucketed_by", ""))
    ]
    properties = ", ".join(f"'{name}'='{facts[name]}'" for name in _PROPERTIES if name in facts)
    return "\n".join([head, ")", *clauses, "STORED AS ORC", f"TBLPROPERTIES ({properties})"])


_CLAUSES = ("partitioned_by", "bucketed_by", "bucket_count", "sorted_by", "format")
_PROPERTIES = ("transactional", "bucketing_version")


def _write_id_list(table: str, ids: dict[str, Any]) -> str:
    if ids["invalid"] or ids["aborted_bits"]:
        message = "no table had open or aborted write ids when this was written: teach me"
        raise NotImplementedError(message)
    return f"{table}:{ids['high_water_mark']}:{ids['min_open'] or _NO_OPEN}::"


def _tsv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
