"""Retries of steps before a commit after a lost answer: they can be repeated, because nothing is committed yet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.location_overlap import is_same_location
from hiveacid.errors import CommitStateUnknownError, HiveAcidError, StoreUnavailableError
from hiveacid.stores.hms.catalog.tables import MetastoreCatalog
from hiveacid.stores.hms.thrift.failover_client import ROUNDS

logger = logging.getLogger(__name__)


def retry_lost_answer(step: Callable[[], object]) -> None:
    """Run a repeatable step again after a lost answer. Raises StoreUnavailableError after the last attempt."""
    for turn in range(1, ROUNDS + 1):
        try:
            step()
        except CommitStateUnknownError as lost:
            if turn == ROUNDS:
                message = str(lost).rpartition(";")[0] or str(lost)
                raise StoreUnavailableError(f"{message}; nothing was committed: try again") from lost
        else:
            return


def create_table(
    catalog: MetastoreCatalog, table: TableDefinition, new_tables: list[TableDefinition]
) -> None:
    """Create a table whose name is locked. A table that exists after a lost answer is therefore the same one.

    The table is added to ``new_tables`` as soon as it may exist, for :func:`drop_created_tables`.
    """

    def create() -> None:
        if table in new_tables and _is_made(catalog, table):
            return
        try:
            catalog.create_table(table, empty=True)
        except CommitStateUnknownError:
            new_tables.append(table)
            raise

    retry_lost_answer(create)
    new_tables.append(table)


def drop_created_tables(catalog: MetastoreCatalog, tables: list[TableDefinition]) -> None:
    """Drop the tables that :func:`create_table` made, or may have made, as far as the metastore can be reached."""
    for table in tables:
        try:
            retry_lost_answer(partial(_drop, catalog, table))
        except HiveAcidError as error:  # the caller reports the error before this one
            logger.warning("%s may be left without rows: drop it (%s)", table.name, error)


def _drop(catalog: MetastoreCatalog, table: TableDefinition) -> None:
    if _is_made(catalog, table):
        catalog.drop_table(table.name)


def _is_made(catalog: MetastoreCatalog, table: TableDefinition) -> bool:
    existing = catalog.get_table(table.name)
    return existing is not None and is_same_location(existing.location, table.location)
