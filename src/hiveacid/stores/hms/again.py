"""Steps before a commit whose answer may be lost: nothing is committed yet, so that they are done again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hiveacid.core.locations import same
from hiveacid.errors import CommitStateUnknownError, HiveAcidError, StoreUnavailableError
from hiveacid.stores.hms.client import ROUNDS

if TYPE_CHECKING:
    from hiveacid.core.model import TableDefinition
    from hiveacid.stores.hms.catalog import MetastoreCatalog

logger = logging.getLogger(__name__)


def repeated(step: Callable[[], object]) -> None:
    """Do what may be done twice; StoreUnavailableError where no answer comes: nothing was committed."""
    for turn in range(1, ROUNDS + 1):
        try:
            step()
        except CommitStateUnknownError as lost:
            if turn == ROUNDS:
                said = str(lost).rpartition(";")[0] or str(lost)
                raise StoreUnavailableError(f"{said}; nothing was committed: try again") from lost
        else:
            return


def make(catalog: MetastoreCatalog, table: TableDefinition, made: list[TableDefinition]) -> None:
    """Make a table whose name is locked; one that is there after a lost answer is that one.

    ``made`` gets it as soon as it may be there: for :func:`unmake`.
    """

    def create() -> None:
        if table in made and _is_made(catalog, table):
            return
        try:
            catalog.create_table(table)
        except CommitStateUnknownError:
            made.append(table)
            raise

    repeated(create)
    made.append(table)


def unmake(catalog: MetastoreCatalog, tables: list[TableDefinition]) -> None:
    """Take back what :func:`make` made, or may have made, as far as the metastore can be reached."""
    for table in tables:
        try:
            repeated(partial(_drop, catalog, table))
        except HiveAcidError:  # what went wrong before is what there is to say
            logger.warning("%s may be left without rows: drop it", table.name, exc_info=True)


def _drop(catalog: MetastoreCatalog, table: TableDefinition) -> None:
    if _is_made(catalog, table):
        catalog.drop_table(table.name)


def _is_made(catalog: MetastoreCatalog, table: TableDefinition) -> bool:
    found = catalog.get_table(table.name)
    return found is not None and same(found.location, table.location)
