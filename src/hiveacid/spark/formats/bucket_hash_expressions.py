"""Hive's bucket of a row as native Spark expressions, both bucketing versions.

The rules are those of ``ObjectInspectorUtils.getBucketHashCode`` (version 2: Murmur3 with Hive's seed) and
``getBucketHashCodeOld`` (version 1: Java hash codes); ``core.schema.bucket_hash`` is the same in plain Python.

Hive's own class hashes bytes inside the JVM. Java's 32-bit arithmetic in Spark functions does the rest: products and sums are
computed in 64 bits and wrapped by masks. Nothing overflows, so ``spark.sql.ansi.enabled`` makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from hiveacid.core.schema.bucket_hash import MURMUR_SEED, check_bucketing_type
from hiveacid.core.schema.types import Array, HiveType, Map, Primitive, Struct, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.expressions import bind
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import call, call_static, hive_hash

_POSITIVE = 0x7FFFFFFF
_OLD = 1
_DECIMAL = "org.apache.hadoop.hive.common.type.HiveDecimal"
_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_SEED = 1867871456  # Spark's hash() of this int is 104729, Hive's seed, which is then the seed of the next argument


def bucket_number(
    env: SparkEnvironment, columns: Sequence[SparkColumn], hive_types: Sequence[str], version: int, count: int
) -> SparkColumn:
    """Return the bucket of a row, an int from 0 to ``count - 1``.

    ``columns``: the CLUSTERED BY columns, of the Spark types of ``hive_types`` (char with or without its
    padding, timestamps as the session shows them). ``version``: the table's ``bucketing_version``. Raises
    UnsupportedFeatureError for types that ``core.schema.bucket_hash`` refuses.
    """
    types = [parse_type(text) for text in hive_types]
    for kind in types:
        check_bucketing_type(kind, version)
    hashing = _Hashing(env, old=version == _OLD)
    code = _fold(hashing.of(value, kind) for value, kind in zip(columns, types, strict=True))
    return code.bitwiseAND(F.lit(_POSITIVE)) % F.lit(count)


def _fold(codes: Iterable[SparkColumn]) -> SparkColumn:
    return reduce(combine_hashes, codes)


@dataclass(frozen=True)
class _Hashing:
    """Hash codes of values under one bucketing version; ``old``: version 1."""

    env: SparkEnvironment
    old: bool

    def of(self, value: SparkColumn, kind: HiveType) -> SparkColumn:
        """Return the hash code of a value, an int; 0 for NULL."""
        return F.coalesce(self._of_value(value, kind), F.lit(0))

    def _of_value(self, value: SparkColumn, kind: HiveType) -> SparkColumn:
        match kind:
            case Array(element=element):
                return F.aggregate(
                    value, F.lit(0), lambda code, item: combine_hashes(code, self.of(item, element))
                )
            case Map(key=key, value=item):
                return self._map(value, key, item)
            case Struct(fields=fields):
                inner = _fold(self.of(value.getField(field.name), field.type) for field in fields)
                return F.when(value.isNotNull(), inner)
            case Primitive():
                return self._primitive(value, kind)
        raise UnsupportedFeatureError(f"rows cannot be bucketed by a column of type {kind}")

    def _map(self, value: SparkColumn, key: HiveType, item: HiveType) -> SparkColumn:
        # Hive hashes a map's values by version 1 even under version 2
        old = _Hashing(self.env, old=True)

        def add(code: SparkColumn, entry: SparkColumn) -> SparkColumn:
            pair = self.of(entry.getField("key"), key).bitwiseXOR(old.of(entry.getField("value"), item))
            return to_int(code.cast("bigint") + pair)

        return F.aggregate(F.map_entries(value), F.lit(0), add)

    def _primitive(self, value: SparkColumn, kind: Primitive) -> SparkColumn:
        match kind.name:
            case "boolean" | "tinyint":
                return value.cast("int")
            case "smallint":
                if self.old:
                    return value.cast("int")
                return self._murmur(
                    F.unhex(F.lpad(F.hex(value.cast("int").bitwiseAND(F.lit(0xFFFF))), 4, "0"))
                )
            case "int":
                return value if self.old else murmur_int(value)
            case "date":
                days = F.unix_date(value)
                return days if self.old else murmur_int(days)
            case "bigint":
                return fold_long(value) if self.old else murmur_long(value)
            case "float" | "double":
                return self._floating(value, kind.name)
            case "timestamp":
                local = F.from_utc_timestamp(value, self.env.session_time_zone)
                return self._murmur(bind(local, _timestamp_bytes))
            case "decimal":
                return self._decimal(value)
            case _:
                data = (F.rtrim(value) if kind.name == "char" else value).cast("binary")
                return self._old_bytes(data, kind.name) if self.old else self._murmur(data)

    def _old_bytes(self, data: SparkColumn, kind: str) -> SparkColumn:
        # Text.hashCode (string) starts at 0, WritableComparator.hashBytes (other types) at 1; a leading byte 1 gives
        # the same result as a start at 1
        started = data if kind == "string" else F.concat(F.lit(b"\x01"), data)
        code = hive_hash(self.env, started)
        return F.when(data.isNotNull(), code)

    def _murmur(self, data: SparkColumn) -> SparkColumn:
        arguments = [data, F.octet_length(data), F.lit(MURMUR_SEED)]
        return call_static(self.env, "org.apache.hive.common.util.Murmur3", "hash32", "int", arguments)

    def _floating(self, value: SparkColumn, kind: str) -> SparkColumn:
        single = kind == "float"
        bits = self._bits(value, single=single)
        if self.old:
            return bits if single else fold_long(bits)
        # Hive writes the bits into its buffer as a *number* of the type, and hashes the bits of that number
        again = self._bits(bits.cast(kind), single=single)
        return murmur_int(again) if single else murmur_long(again)

    def _bits(self, value: SparkColumn, *, single: bool) -> SparkColumn:
        owner = "java.lang.Float" if single else "java.lang.Double"
        method, result = ("floatToIntBits", "int") if single else ("doubleToLongBits", "bigint")
        return call_static(self.env, owner, method, result, [value])

    def _decimal(self, value: SparkColumn) -> SparkColumn:
        number = call(self.env, value, "toJavaBigDecimal", "java.math.BigDecimal")
        hive = call_static(self.env, _DECIMAL, "create", _DECIMAL, [number])
        if self.old:
            return call(self.env, hive, "hashCode", "int")
        return self._murmur(call(self.env, hive, "bigIntegerBytes", "binary"))


def _timestamp_bytes(local: SparkColumn) -> SparkColumn:
    """Return ``TimestampWritableV2.getBytes`` of a wall-clock time, given as that time in UTC.

    Four bytes of seconds, whose top bit says that more follows: the digits of the fraction in reverse and, for
    times outside 1970 to 2038, the seconds above 31 bits, both as Hadoop's variable-length integers.
    """
    seconds = F.unix_seconds(local)
    micros = F.unix_micros(local) - seconds * F.lit(1_000_000)
    reverse = F.reverse(F.lpad(micros.cast("string"), 6, "0")).cast("bigint")
    far = (seconds < 0) | (seconds > F.lit(_POSITIVE))
    more = F.when(far | (micros > 0), F.lit(1 << 31)).otherwise(F.lit(0).cast("bigint"))
    head = F.lpad(F.hex(seconds.bitwiseAND(F.lit(_POSITIVE)).bitwiseOR(more)), 8, "0")
    beyond = F.concat(
        bind(-reverse - F.lit(1), _variable_hex), bind(F.shiftright(seconds, 31), _variable_hex)
    )
    rest = F.when(far, beyond).when(micros > 0, bind(reverse, _variable_hex)).otherwise("")
    return F.unhex(F.concat(head, rest))


def _variable_hex(number: SparkColumn) -> SparkColumn:
    """Return Hadoop's variable-length integer (``WritableUtils.writeVLong``) of up to three bytes in hex."""
    digits = F.hex(F.when(number < 0, -number - F.lit(1)).otherwise(number))
    whole = F.when(F.length(digits) % F.lit(2) == 1, F.concat(F.lit("0"), digits)).otherwise(digits)
    size = F.floor(F.length(whole) / F.lit(2))
    marker = F.when(number < 0, F.lit(-120)).otherwise(F.lit(-112)) - size
    return F.when(number.between(-112, 127), _byte_hex(number)).otherwise(F.concat(_byte_hex(marker), whole))


def _byte_hex(number: SparkColumn) -> SparkColumn:
    return F.lpad(F.hex(number.bitwiseAND(F.lit(0xFF))), 2, "0")


def to_int(value: SparkColumn) -> SparkColumn:
    """Return the low 32 bits of a bigint as a signed int (Java's ``(int) value``)."""
    low = value.bitwiseAND(F.lit(_WORD)).bitwiseXOR(F.lit(_SIGN))
    return (low - F.lit(_SIGN)).cast("int")


def fold_long(value: SparkColumn) -> SparkColumn:
    """Return Java's ``Long.hashCode``."""
    return to_int(F.shiftrightunsigned(value, 32).bitwiseXOR(value))


def combine_hashes(code: SparkColumn, following: SparkColumn) -> SparkColumn:
    """Return ``31 * code + following``."""
    return to_int(code.cast("bigint") * F.lit(31) + following)


def murmur_int(value: SparkColumn) -> SparkColumn:
    """Return Hive's Murmur3 of an int's four bytes, most significant first."""
    return F.when(value.isNotNull(), F.hash(F.lit(_SEED), _reverse_bytes(value, 4, F.lit(0xFF))))


def murmur_long(value: SparkColumn) -> SparkColumn:
    """Return Hive's Murmur3 of a bigint's eight bytes, most significant first."""
    return F.when(
        value.isNotNull(), F.hash(F.lit(_SEED), _reverse_bytes(value, 8, F.lit(0xFF).cast("bigint")))
    )


def _reverse_bytes(value: SparkColumn, size: int, byte: SparkColumn) -> SparkColumn:
    moved = [
        F.shiftleft(F.shiftrightunsigned(value, 8 * i).bitwiseAND(byte), 8 * (size - 1 - i))
        for i in range(size)
    ]
    return reduce(lambda left, right: left.bitwiseOR(right), moved)
