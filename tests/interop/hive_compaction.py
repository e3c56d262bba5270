"""Hive's compactions as a test waits for them: the queue in the metastore's database, and obsolete directories."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from hive_server import HiveServers

if TYPE_CHECKING:
    from hiveacid.ports.file_system import FileSystem

_NAME = re.compile(r"(base|delta|delete_delta)_(\d+)(?:_(\d+))?(?:_(\d{4}))?(?:_v\d+)?$")
_KINDS = {"i": "minor", "a": "major"}


class Compactions:
    """The queue of one version, whose tables are in lower case in Hive 3."""

    def __init__(self, servers: HiveServers, patience: float = 300.0) -> None:
        self._servers = servers
        self._patience = patience
        self._dead: list[int] = []
        self.died = 0  # so many compactions ended with a process of ours

    def forget(self) -> list[tuple[str, str]]:
        """Take out what waits for the cleaner: 4.0.1 refuses the next request as long as it does.

        On PostgreSQL it would stay so for ever: marking it as cleaned fails there ("invalid byte sequence 0x00").
        Returns who had compacted (we or Hive), and how.
        """
        gone = self._run(
            'DELETE FROM "COMPACTION_QUEUE" WHERE "CQ_STATE" IN (\'r\', \'s\') RETURNING "CQ_HADOOP_JOB_ID", "CQ_TYPE"'
        )
        return [("we" if job == "hiveacid" else "Hive", _KINDS[str(kind)]) for job, kind in gone]

    def bury(self, process: int) -> None:
        """Let :meth:`settle` give jobs of a dead process of ours back to the queue.

        The metastore's initiator does the same, after ``hive.compactor.worker.timeout`` (a day).
        """
        self._dead.append(process)

    def _take_from_the_dead(self) -> None:
        for process in tuple(self._dead):  # at each look: its last call may arrive after its death
            taken = self._run(
                'UPDATE "COMPACTION_QUEUE" SET "CQ_STATE" = \'i\', "CQ_WORKER_ID" = NULL, "CQ_START" = NULL '
                f'WHERE "CQ_STATE" = \'w\' AND "CQ_WORKER_ID" LIKE \'~%-{process}.worker%\' RETURNING "CQ_ID"'
            )
            self.died += len(taken)

    def hold(self) -> None:
        """Let the cleaner of 4.0.1 leave alone what will be compacted, from now on until :meth:`clean`.

        It takes the directory -tmp.delta… of Hive's writer at work for an original file, and deletes it with the
        manifests in there; the writer then drops the files that they list, and its rows are lost. On S3, a query of
        Hive returns no rows if the cleaner deletes a directory between two requests of the query's listing.
        """
        if self._servers.is_hive3:
            return
        self._run(
            "CREATE OR REPLACE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS "
            """$$ BEGIN NEW."CQ_STATE" := 's'; RETURN NEW; END $$"""
        )
        self._run(
            'CREATE OR REPLACE TRIGGER held BEFORE UPDATE ON "COMPACTION_QUEUE" FOR EACH ROW '
            """WHEN (OLD."CQ_STATE" = 'w' AND NEW."CQ_STATE" = 'r') EXECUTE FUNCTION held()"""
        )

    def clean(self, fs: FileSystem, location: str) -> None:
        """Let the cleaner do what was held, and wait until it has. Raises TimeoutError."""
        if not self._servers.is_hive3:
            self._run(
                'UPDATE "COMPACTION_QUEUE" SET "CQ_STATE" = \'r\', "CQ_RETRY_RETENTION" = 0 WHERE "CQ_STATE" = \'s\''
            )
        self.wait_for_cleaner(fs, location)
        self.forget()

    def wait(self) -> None:
        """Wait until no request is queued or worked on. Raises AssertionError if one has failed, TimeoutError."""
        self.settle()
        failed = self._run(
            'SELECT "CC_TABLE", "CC_TYPE", "CC_STATE" FROM "COMPLETED_COMPACTIONS" WHERE "CC_STATE" = \'f\''
        )
        assert failed == []

    def ended(self) -> dict[str, int]:
        """Return how many ended in which state: s (succeeded), f (failed) and so on."""
        rows = self._run('SELECT "CC_STATE", count(*) FROM "COMPLETED_COMPACTIONS" GROUP BY 1')
        return {str(state): int(str(count)) for state, count in rows}

    def settle(self) -> None:
        """Wait until no request is queued or worked on, however they end. Raises TimeoutError."""
        deadline = time.monotonic() + self._patience
        while left := self._run(
            'SELECT "CQ_STATE" FROM "COMPACTION_QUEUE" WHERE "CQ_STATE" IN (\'i\', \'w\')'
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"compactions in states {left} after {self._patience} s")
            self._take_from_the_dead()
            time.sleep(0.2)

    def wait_until_worked_on(self) -> None:
        """Wait until a worker has taken a request. Raises TimeoutError."""
        deadline = time.monotonic() + self._patience
        while not self._run('SELECT "CQ_ID" FROM "COMPACTION_QUEUE" WHERE "CQ_STATE" = \'w\''):
            if time.monotonic() > deadline:
                raise TimeoutError("no worker takes the request")
            time.sleep(0.02)

    def wait_for_cleaner(self, fs: FileSystem, location: str) -> None:
        """Wait until nothing is left that a compaction has made obsolete. Raises TimeoutError."""
        deadline = time.monotonic() + self._patience
        while left := obsolete(fs, location):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not cleaned after {self._patience} s: {left}")
            time.sleep(0.3)

    def _run(self, statement: str) -> list[tuple[object, ...]]:
        text = statement.replace('"', "") if self._servers.is_hive3 else statement
        with self._servers.connection() as connection:
            done = connection.execute(text.encode())
            return done.fetchall() if done.description else []


def obsolete(fs: FileSystem, location: str) -> list[str]:
    """Return the directories that another one has replaced."""
    found = []
    folders: dict[str, dict[str, re.Match[str]]] = defaultdict(dict)
    for entry in fs.list_tree(location):
        folder, _, name = entry.path.rpartition("/")
        if entry.is_dir and (match := _NAME.match(name)):
            folders[folder][name] = match
    for folder, names in folders.items():
        bases = [int(match[2]) for match in names.values() if match[1] == "base"]
        base = max(bases, default=-1)
        for name, match in names.items():
            low, high = int(match[2]), int(match[3] or match[2])
            wider = any(
                other[1] == match[1] != "base"
                and int(other[2]) <= low
                and high <= int(other[3])
                and (int(other[2]), int(other[3])) != (low, high)
                for other in names.values()
            )
            if wider or high < base or (high == base and match[1] != "base"):
                found.append(f"{location}/{folder}/{name}")
    return found
