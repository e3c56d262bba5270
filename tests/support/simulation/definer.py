"""A simulated user who defines: drops and makes tables, partitions and their names, and adopts what others left."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.catalog.adopt import adopt
from hiveacid.catalog.ddl import add_partitions, create_table, drop_partitions, drop_table, rename_table
from hiveacid.core.format.names import DeltaName
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableName, WriteId
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    MissingDirectoryError,
    StorageError,
    TransactionStateError,
)
from support.simulation.profiles import OTHER, PARTED, SPARE, WHOLE
from support.simulation.rows import Event, Row, RowId, to_bytes
from support.simulation.session import Session
from support.simulation.world import WAREHOUSE, definition

_DATABASE = f"{WAREHOUSE}/shop.db"
_DAYS = ("0", "1", "2", "3", "4", "5")


@dataclass
class Definer:
    """Carries out one definition after the other."""

    session: Session

    def work(self) -> None:
        """Define until the process dies."""
        turns = self.session.world.profile.turns
        while True:
            (turn,) = self.session.random.choices([*turns], [*turns.values()])
            with self.session.forgiving():
                try:
                    self._make_what_is_missing()
                    getattr(self, turn)()
                    self.session.world.done[turn] += 1
                except CatalogError as refused:
                    self.session.world.scheduler.note(f"refused: {refused}"[:120])
                except (
                    StorageError,
                    MissingDirectoryError,
                ) as late:  # files of a table that another one has dropped meanwhile
                    self.session.world.scheduler.note(f"too late: {late}"[:120])
            self.session.context.clock.sleep(self.session.random.random() * 6)

    def make_again(self) -> None:
        """DROP TABLE, then CREATE TABLE of the same name and directory."""
        name = self.session.world.name()
        drop_table(self.session.context, name)
        self._create(name)

    def rename(self) -> None:
        """Give a table another name, and perhaps its old name to a new one; later they are one again."""
        context = self.session.context
        if context.catalog.get_table(SPARE) is not None:
            drop_table(context, WHOLE, if_exists=True)
            rename_table(context, SPARE, WHOLE)
        else:
            rename_table(context, WHOLE, SPARE)

    def add(self) -> None:
        """ADD PARTITION."""
        add_partitions(self.session.context, PARTED, [({"day": self.session.random.choice(_DAYS)}, None)])

    def drop_partition(self) -> None:
        """DROP PARTITION, perhaps of several."""
        below = self.session.random.choice(_DAYS)

        def choose(partitions: list[Partition]) -> list[Partition]:
            return [
                one for one in partitions if one.values == (below,) or (below > "3" and one.values > ("1",))
            ]

        drop_partitions(self.session.context, PARTED, choose, if_exists=True)  # type: ignore[arg-type]

    def take_place(self) -> None:
        """Try to make a table in the directory of another one, or of a partition; two may try at once."""
        random, context = self.session.random, self.session.context
        if context.catalog.get_table(OTHER) is not None:
            drop_table(context, OTHER)
            return
        place = random.choice((f"{_DATABASE}/parted/day={random.choice(_DAYS)}", f"{_DATABASE}/place"))
        name = random.choice((OTHER, SPARE))
        create_table(context, definition(name, place))

    def adopt(self) -> None:
        """Take over a directory of another engine, in the place of a table that is dropped."""
        random, world, context = self.session.random, self.session.world, self.session.context
        name = random.choice((WHOLE, PARTED))
        number = world.new_keys(1)[0]
        location = f"{_DATABASE}/found{number}"
        valid: dict[str, list[Row]] = {}
        aborted = random.choice((0, 1, 2, 3))
        for write_id in (1, 2, 3):
            root = f"{location}/day={random.choice(_DAYS)}" if name == PARTED else location
            row = Row(RowId(write_id, 0, 0), world.new_keys(1)[0], 0)
            directory = DeltaName(False, WriteId(write_id), WriteId(write_id), 0).format()
            context.fs.write_bytes(
                f"{root}/{directory}/bucket_00000", to_bytes([Event(write_id, row.id, row)])
            )
            valid.setdefault(root, []).extend([row] if write_id != aborted else [])
        drop_table(context, name, if_exists=True)
        world.ledger.adopting[location] = valid
        ids = ValidWriteIdList(name, WriteId(3), (), (WriteId(aborted),) if aborted else ())
        try:
            adopt(context, definition(name, location), ids, None)
        except (
            TransactionStateError
        ) as refused:  # a stream of the dropped table took a write id of the name just now
            world.scheduler.note(f"not adopted: {refused}"[:120])

    def _make_what_is_missing(self) -> None:
        for name in (WHOLE, PARTED):
            if self.session.context.catalog.get_table(name) is None:
                self._create(name)

    def _create(self, name: TableName) -> None:
        """Create a table where the first one of its name was, or in a new place if that is taken."""
        context = self.session.context
        try:
            create_table(context, definition(name, f"{_DATABASE}/{name.name}"))
        except AlreadyExistsError:
            raise
        except CatalogError:  # a renamed table is there, or files of a DROP that was killed
            number = self.session.world.new_keys(1)[0]
            create_table(context, definition(name, f"{_DATABASE}/{name.name}{number}"))
