"""`NativeConnection`: a connection that shares its store with others, and its current database with Spark."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.spark.session.classic_session import create_database, current_database, set_current_database
from hiveacid.sql.session import AcidSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableName
    from hiveacid.sql.binding.parameters import Arguments
    from hiveacid.table.acid_table import AcidTable
    from hiveacid.transactions.transaction import Transaction


@dataclass(eq=False)
class NativeConnection(AcidSession):
    """The connection of one thread of a Spark session. There is one current database: Spark's.

    ``left``: where the transaction goes that is open when the connection is collected, its thread being gone; the
    heartbeat ends it (a collector may interrupt anybody, so nothing that waits is done there).
    """

    left: deque[Transaction] = field(default_factory=deque, repr=False)

    def follow(self) -> None:
        """Go where Spark is, unless the text of a view is being read, whose names belong to its own database."""
        if not self.context.in_view:
            self.context.database = current_database(self.context.facts)

    def use(self, database: str) -> None:
        """Make a database the current one, Spark's too. Raises NoSuchDatabaseError."""
        super().use(database)
        create_database(self.context.facts, self.context.database)
        set_current_database(self.context.facts, self.context.database)

    def sql(self, text: str, args: Arguments | None = None, *, first_line: int = 1) -> DataFrame:
        """Run one statement in Spark's current database, as `AcidSession.sql` does."""
        self.follow()
        return super().sql(text, args, first_line=first_line)

    def table(self, name: str | TableName) -> AcidTable:
        """Return a table of the catalog, or a view; a name alone is in Spark's current database."""
        self.follow()
        return super().table(name)

    def close(self) -> None:
        """Roll back what START TRANSACTION began and stop compacting; the rest ends with the Spark session."""
        self.end_own()

    def __del__(self) -> None:
        """Leave an open transaction to the heartbeat, which aborts it."""
        if self.by_statement and self.joined is not None:
            self.left.append(self.joined)
