"""Register of the running services (workers, initiators, cleaners)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Connection, bindparam, delete, insert, select, update

from hiveacid.core.compaction.queue_records import Service
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import NOW, SqlBase
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import services

_ANNOUNCED = (
    select(services)
    .where(services.c.last_seen >= NOW - bindparam("within", type_=BigInteger))
    .order_by(services.c.name)
)
_DELETE_SILENT_SERVICES = delete(services).where(
    services.c.last_seen < NOW - bindparam("timeout", type_=BigInteger)
)


class ServiceRegister(SqlBase):
    """Implements :class:`hiveacid.ports.store.ServicePort`."""

    def announce_service(self, service: Service) -> None:
        """Insert a service, or update the time of its last announcement."""
        refusals.service(service)
        values = {"kind": service.kind, "pool": service.pool, "version": service.version, "last_seen": NOW}
        now = {"now": self._database.now()}

        def work(connection: Connection) -> None:
            statement = update(services).where(services.c.name == service.name).values(values)
            if not connection.execute(statement, now).rowcount:
                new = {**values, "name": service.name, "started": NOW}
                connection.execute(insert(services).values(new), now)

        self._database.write(work, Durability.WITH_CLIENT)

    def withdraw_service(self, name: str) -> None:
        """Delete a service."""
        statement = delete(services).where(services.c.name == name)
        self._database.write(lambda connection: connection.execute(statement), Durability.WITH_CLIENT)

    def show_services(self, within: float) -> tuple[Service, ...]:
        """List the services announced in the last ``within`` seconds."""
        parameters = {"within": int(within * 1000), "now": self._database.now()}
        rows = self._database.read(lambda connection: connection.execute(_ANNOUNCED, parameters).all())
        return tuple(Service(**row._asdict()) for row in rows)


def forget_services(connection: Connection, limits: Limits, now: int | None) -> None:
    """Drop services that were not announced for ``hive.compactor.worker.timeout``."""
    connection.execute(_DELETE_SILENT_SERVICES, {"timeout": int(limits.worker_timeout * 1000), "now": now})
