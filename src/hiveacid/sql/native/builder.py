"""`configure`: Spark's session builder with hiveacid's settings, and on request with native SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hiveacid.errors import ConfigError
from hiveacid.spark.session import capabilities as session

if TYPE_CHECKING:
    from hiveacid.sql.native.session import NativeSession


def configure(
    builder: Any,
    *,
    native: bool = False,
    warehouse: str | None = None,
    store: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Any:
    """Return a ``SparkSession.builder`` with the settings that hiveacid works best with.

    ``native``: the session's own ``spark.sql`` carries out statements on transactional tables of ``warehouse`` and
    ``store`` (as for `connect`), and passes all others to Spark unchanged.
    With a local master it also makes Python workers use this interpreter.
    Raises ConfigError for a warehouse, store or settings without ``native``.
    """
    configured = session.configure(builder)
    if native:
        return NativeBuilder(configured, warehouse, store, settings)
    if warehouse is not None or store is not None or settings:
        raise ConfigError("warehouse, store and settings need native=True: add it, or pass them to connect()")
    return configured


class NativeBuilder:
    """``SparkSession.builder`` whose ``getOrCreate`` returns a `NativeSession`; everything else is Spark's."""

    def __init__(
        self, builder: Any, warehouse: str | None, store: str | None, settings: Mapping[str, str] | None
    ) -> None:
        """Keep warehouse, store and settings for `getOrCreate`."""
        self._builder = builder
        self._connect_arguments = (warehouse, store, dict(settings) if settings else None)

    def getOrCreate(self) -> NativeSession:  # noqa: N802 - Spark's name
        """Return the native session; an existing one if it uses the same warehouse, or if no warehouse was given.

        Raises ConfigError if the existing native session uses another warehouse, or Java does not start; the errors of
        `connect`.
        """
        from hiveacid.sql.native.session import NativeSession, open_native_session  # noqa: PLC0415 - needs pyspark

        try:
            plain = self._builder.getOrCreate()
        except Exception as error:
            if "JAVA_GATEWAY_EXITED" not in str(error):
                raise
            raise ConfigError("Spark does not start, because Java does not: see hiveacid doctor") from error
        if not isinstance(plain, NativeSession):
            return open_native_session(plain, *self._connect_arguments)
        if self._connect_arguments not in ((None, None, None), plain.connect_arguments):
            raise ConfigError(
                "this application has a native session on another warehouse: call spark.stop() first"
            )
        return plain

    def __getattr__(self, name: str) -> Any:
        """Pass other calls to Spark's builder; return this builder where Spark returns its own."""
        attribute = getattr(self._builder, name)
        if not callable(attribute):
            return attribute

        def delegate(*args: Any, **kwargs: Any) -> Any:
            answer = attribute(*args, **kwargs)
            return self if answer is self._builder else answer

        return delegate
