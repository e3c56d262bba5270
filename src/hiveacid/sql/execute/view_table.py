"""Views as tables of the Python API: ``acid.table("v").to_df()``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.catalog.views import require_view
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.sql.execute.query import bound_frame
from hiveacid.sql.statements.values import Slice
from hiveacid.table.acid_table import AcidTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import ViewDefinition
    from hiveacid.sql.binding.bind import Binder


@dataclass(frozen=True)
class AcidView(AcidTable):
    """A view of a connection: its rows can be read; every verb that needs a table raises CatalogError."""

    binder: Callable[[], AbstractContextManager[Binder]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def view(self) -> ViewDefinition:
        """Return the view's present definition. Raises NoSuchTableError."""
        return require_view(self.context, self.name)

    def to_df(self) -> DataFrame:
        """Return the rows that its query gives at the present snapshot (the transaction's, inside one)."""
        if self.binder is None:
            raise UnsupportedFeatureError("a view is read by the connection that knows it: acid.table(name)")
        name = f"{quote_name(self.name.database)}.{quote_name(self.name.name)}"
        with self.binder() as binder:
            return bound_frame(binder, Slice(f"SELECT * FROM {name}"))
