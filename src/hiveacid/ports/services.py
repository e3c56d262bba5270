"""Port for the register of running services."""

from __future__ import annotations

from typing import Protocol

from hiveacid.core.compaction.queue import Service


class ServicePort(Protocol):
    """Register of running services, kept alive by repeated announcements."""

    def announce_service(self, service: Service) -> None:
        """Announce a running service: at its start, and repeatedly while it runs."""

    def withdraw_service(self, name: str) -> None:
        """Remove a service that ends from the register; an unknown name is no error."""

    def show_services(self, within: float) -> tuple[Service, ...]:
        """List the services announced in the last ``within`` seconds, by name."""
