"""Spark's own parser and its trees.

Every access to a tree is a Py4J round trip of some 40 microseconds; callers visit as few nodes as possible.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember
from py4j.protocol import STATIC_PREFIX
from pyspark.sql import SparkSession

from hiveacid.spark.session.capabilities import SparkEnvironment


def parser_of(env: SparkEnvironment) -> Any:
    """Return the session's ``ParserInterface``, with the user's extensions but without hiveacid's parser."""
    return env.parser or env.state.sqlParser()


def session_of(env: SparkEnvironment) -> Any:
    """Return the JVM's session."""
    return env.spark._jsparkSession  # noqa: SLF001


@contextmanager
def active_session(env: SparkEnvironment) -> Iterator[None]:
    """Make the session the active one of this thread's JVM thread in the block.

    Spark's parser and ``${variables}`` take their settings from the active session. A thread of Python's other than the
    first has none, and a thread of a streaming query has another one, which gets its place back.
    """
    package = "org.apache.spark.sql" if env.version < (4, 0) else "org.apache.spark.sql.classic"
    sessions = java_class(env, f"{package}.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session_of(env))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def java_class(env: SparkEnvironment, name: str) -> Any:
    """Return a class of the JVM by its full name, without the round trip for each part of ``jvm.java.lang...``."""
    return class_of_session(env.spark, name)


def class_of_session(spark: SparkSession, name: str) -> Any:
    """Return a class of a session's JVM by its full name."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    return _StaticMethods(name, gateway._gateway_client)  # noqa: SLF001


def class_beside(java_object: Any, name: str) -> Any:
    """Return a class, by its full name, of the JVM that has an object."""
    return _StaticMethods(name, java_object._gateway_client)  # noqa: SLF001


def java_value(env: SparkEnvironment, value: object) -> Any:
    """Return a map or list as a Java object, in two round trips; Py4J takes one for each entry."""
    unpickler = java_class(env, "net.razorvine.pickle.Unpickler")()
    return unpickler.loads(pickle.dumps(value, protocol=2))


def java_sequence(env: SparkEnvironment, items: Sequence[object]) -> Any:
    """Return a list as a Scala Seq, as `java_value`."""
    return java_class(env, "org.apache.spark.api.python.PythonUtils").toSeq(java_value(env, list(items)))


class _StaticMethods(JavaClass):  # type: ignore[misc] # py4j has no types
    """Class of the JVM: a name with a small letter is a method. Py4J asks Java about each name of each call."""

    def __getattr__(self, name: str) -> Any:
        """Return a static method, or a constant or inner class."""
        if not name[0].islower():
            return super().__getattr__(name)
        return JavaMember(name, None, STATIC_PREFIX + self._fqn, self._gateway_client)


class JavaPackages:
    """The JVM's packages by attributes: a name with a capital is a class, any other a package.

    Unlike ``_jvm`` of PySpark this takes no round trips. Py4J asks Java for each part, and Java looks for a class of
    that name in all jars.
    """

    def __init__(self, client: Any, prefix: str = "") -> None:
        self._client = client
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        """Return a package or class."""
        if name.startswith("__"):
            raise AttributeError(name)
        whole = self._prefix + name
        is_class = name[0].isupper()
        return _StaticMethods(whole, self._client) if is_class else JavaPackages(self._client, f"{whole}.")


def java_packages(spark: SparkSession) -> Any:
    """Return the packages of a session's JVM."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    return JavaPackages(gateway._gateway_client)  # noqa: SLF001


def scala_items(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a Scala Seq."""
    for index in range(sequence.size()):
        yield sequence.apply(index)
