"""Views. Tables and views share one name space."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from hiveacid.core.model import TableName, ViewDefinition
from hiveacid.stores import checks, refusals
from hiveacid.stores.sql.catalog.definitions import to_text, view_of
from hiveacid.stores.sql.catalog.tables import require_database, require_free_name
from hiveacid.stores.sql.database import SqlBase
from hiveacid.stores.sql.idempotency import write_exactly_once
from hiveacid.stores.sql.schema import views

_THIS = (views.c.database_name == bindparam("database"), views.c.name == bindparam("called"))
_VIEW = select(views.c.definition).where(*_THIS)
_VIEWS = select(views.c.name).where(views.c.database_name == bindparam("database"))


def _place(name: TableName) -> dict[str, str]:
    return {"database": name.database, "called": name.name}


class Views(SqlBase):
    """Verbs of :class:`hiveacid.ports.catalog.Catalog` about views."""

    def get_view(self, name: TableName) -> ViewDefinition | None:
        """Return a view or None."""
        checks.table_name(name)
        text = self._database.read(lambda connection: connection.scalar(_VIEW, _place(name)))
        return None if text is None else view_of(text)

    def list_views(self, database: str) -> tuple[str, ...]:
        """Return the names, sorted."""
        checks.database_name(database)

        def work(connection: Connection) -> tuple[str, ...]:
            found = tuple(sorted(connection.scalars(_VIEWS, {"database": database})))
            if not found:
                require_database(connection, database)
            return found

        return self._database.read(work)

    def create_view(self, view: ViewDefinition) -> None:
        """Create a view."""
        checks.view(view)
        name = view.name

        def work(connection: Connection) -> None:
            require_free_name(self._database, connection, name)
            row = {"database_name": name.database, "name": name.name, "definition": to_text(view)}
            connection.execute(insert(views), row)

        write_exactly_once(self._database, work)

    def alter_view(self, name: TableName, view: ViewDefinition) -> None:
        """Replace a view, its name too."""
        checks.table_name(name)
        checks.view(view)
        new = view.name

        def work(connection: Connection) -> None:
            _require(connection, name)
            if new != name:
                require_free_name(self._database, connection, new)
            changed = {"database_name": new.database, "name": new.name, "definition": to_text(view)}
            connection.execute(update(views).where(*_THIS).values(changed), _place(name))

        write_exactly_once(self._database, work)

    def drop_view(self, name: TableName) -> None:
        """Drop a view."""
        checks.table_name(name)

        def work(connection: Connection) -> None:
            _require(connection, name)
            connection.execute(delete(views).where(*_THIS), _place(name))

        write_exactly_once(self._database, work)


def _require(connection: Connection, name: TableName) -> None:
    if connection.scalar(_VIEW, _place(name)) is None:
        raise refusals.no_view(name)
