"""Other file systems than local disks, opened with the settings that the Spark session reads them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hiveacid.spark.session.hadoop_file_systems import open_hadoop
from hiveacid.storage.arrow_opening import open_arrow
from hiveacid.storage.paths import KNOWN, OBJECT_STORES

if TYPE_CHECKING:
    from hiveacid.ports.file_system import FileSystem
    from hiveacid.spark.session.capabilities import SparkFacts
    from hiveacid.storage.paths import StorageUri

_SECRETS = (".key", ".token")
_HADOOP = KNOWN - OBJECT_STORES
"""Schemes that the JVM opens, because Arrow would need native libraries that are rarely installed."""


@dataclass(frozen=True)
class SessionFileSystems:
    """Opens a place as the session would: after its ``fs.…`` settings; those of the connection come first.

    Values are looked up when a place is opened, and neither kept nor logged.
    """

    facts: SparkFacts
    given: Mapping[str, str]

    def __call__(self, place: StorageUri) -> FileSystem:
        """Open a place. Raises UnsupportedFeatureError, StorageError."""
        if self.facts.classic and place.scheme in _HADOOP:
            return open_hadoop(self.facts.spark._jvm, self._hadoop, place)  # noqa: SLF001
        return open_arrow(place, self.lookup)

    def lookup(self, name: str) -> str | None:
        """Return the value of a setting of Hadoop (``fs.s3a.endpoint``), None where it is not set."""
        if name in self.given:
            return self.given[name]
        if not self.facts.classic:
            value: str | None = self.facts.spark.conf.get(f"spark.hadoop.{name}", None)
            return value
        if name.endswith(_SECRETS):
            secret = self._hadoop.getPassword(name)  # may come from a credential provider
            return None if secret is None else "".join(secret)
        found: str | None = self._hadoop.get(name)
        return found

    @cached_property
    def _hadoop(self) -> Any:
        """Hadoop's configuration of the session, as its own readers and writers get it."""
        session: Any = self.facts.spark
        return session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
