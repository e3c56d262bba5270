"""Names that are safe in a metastore, conversion of its definitions, and partitions, many of them per call.

Unknown fields survive the way back. The file ``_metadata`` of EXPORT TABLE has a table and its partitions as the metastore has
them, in Thrift's JSON. Its rules are those of Hive's ``EximUtil``, ``TableSerializer``, ``PartitionSerializer`` and
``MetadataJson``, the same in 3.1 and 4.0. The Thrift library is not needed for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hiveacid.config.property_definitions import LAST_DDL_TIME
from hiveacid.core.model import (
    Bucketing,
    Column,
    DatabaseDefinition,
    Partition,
    StorageFormat,
    TableDefinition,
    TableName,
    ViewDefinition,
)
from hiveacid.core.schema.location_overlap import is_same_location
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.schema.storage_formats import TEXTFILE, differs_in_layout
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import (
    AlreadyExistsError,
    BadFileError,
    CatalogError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.ports.transactions import Client
from hiveacid.stores import refusals
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.thrift_structs import ThriftStruct, missing_required_field
from hiveacid.stores.refusals import misplaced_partition

_NAME = re.compile(r"\w+", re.ASCII)
_QUOTES = re.compile(r"['\\]")
_NOT_IN_PARTITIONS = frozenset("'\\")


def plain_database(name: str) -> str:
    """Return the name of a database; CatalogError unless it is of letters, digits and underscores."""
    refusals.database_name(name)
    return _plain(name)


def plain_table(name: TableName) -> TableName:
    """Return a table's name; CatalogError unless it is of letters, digits and underscores."""
    refusals.table_name(name)
    _plain(name.database)
    _plain(name.name)
    return name


def plain_partition(name: str | None) -> str | None:
    """Return a partition's name with its values escaped as Hive does; CatalogError for quotes."""
    refusals.partition_name(name)
    if name is not None and _NOT_IN_PARTITIONS & set(name):
        raise CatalogError(f"{name!r} is not a partition's name: quotes and backslashes are escaped in it")
    return name


def without_quotes(client: Client) -> Client:
    """Return a client whose texts do no harm in the SQL of Hive 3, which they go into as they are."""
    return Client(*(_QUOTES.sub("_", text) for text in (client.user, client.host, client.agent)))


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name) or name != name.lower():
        raise CatalogError(
            f"a metastore has no {name!r}: names are of lower-case letters, digits and underscores"
        )
    return name


MANAGED, EXTERNAL, VIRTUAL = "MANAGED_TABLE", "EXTERNAL_TABLE", "VIRTUAL_VIEW"
ACCURATE = "COLUMN_STATS_ACCURATE"
INCARNATION = "hiveacid.incarnation"
"""Property with a random id, in tables that hiveacid creates in a metastore of Hive 3, which has no ids of tables."""
_OF_METASTORE = frozenset(
    {
        LAST_DDL_TIME.name.lower(),
        "numfiles",
        "numrows",
        "rawdatasize",
        "totalsize",
        "numpartitions",
        "numfileserasurecoded",
        "stats_generated_via_stats_task",
        "do_not_update_stats",
        "external",
        "comment",
        ACCURATE.lower(),
        INCARNATION,
    }
)
"""Properties of the metastore itself, or of other fields of a definition: hidden as table properties, and never set."""
_LOCAL = re.compile(r"file:/+")
_NAMED = re.compile(
    r"SELECT (?:`[^`]+` AS `[^`]+`(?:, )?)+ FROM \((?P<query>.*)\) (?!`hiveacid_query`)`[^`]+`", re.DOTALL
)
"""Query that Hive stores for a view with named columns; its `_c0` is Hive's name for an unnamed column."""
_NAMESPACE = "view.catalogAndNamespace.{}"
_SETTING = "view.sqlConfig."  # before the name of a setting of the creator, as in views of Spark
_DATABASE = _NAMESPACE.format("part.1")
"""Database in which a view was created, under Spark's key (``CatalogTable.viewCatalogAndNamespace``)."""
_ASCENDING = 1
USER = 1
"""Type of an owner."""


def local(location: str | None) -> str:
    """Return a location in the form of hiveacid's file systems: ``file:/x`` becomes ``/x``."""
    return _LOCAL.sub("/", location or "", count=1).rstrip("/") or "/"


def sent_location(location: str) -> str:
    """Return a location in the form of a metastore, with its scheme."""
    return f"file:{location}" if location.startswith("/") else location


def table_of(raw: ThriftStruct) -> TableDefinition:
    """Return a ``Table`` of the metastore as a definition."""
    parameters = dict(raw.parameters or {})
    storage = raw.sd
    return TableDefinition(
        name=TableName(raw.dbName, raw.tableName),
        columns=tuple(_column(column) for column in storage.cols or ()),
        storage=storage_of(storage),
        location=local(storage.location),
        partition_columns=tuple(_column(column) for column in raw.partitionKeys or ()),
        bucketing=_bucketing(storage),
        properties=_shown(parameters),
        external=raw.tableType == EXTERNAL,
        comment=parameters.get("comment"),
        owner=raw.owner or "",
        created_at=raw.createTime or 0,
        # Hive 4 has an id of its own; Hive 3 has the time of creation and our property, if any
        incarnation=f"{raw.createTime or 0} {parameters.get(INCARNATION, '')}"
        if raw.id is None
        else f"id {raw.id}",
    )


def storage_of(raw: ThriftStruct) -> StorageFormat:
    """Return the format of a ``StorageDescriptor``."""
    return StorageFormat(
        raw.serdeInfo.serializationLib or "",
        raw.inputFormat or "",
        raw.outputFormat or "",
        tuple(sorted((raw.serdeInfo.parameters or {}).items())),
    )


def view_of(raw: ThriftStruct) -> ViewDefinition:
    """Convert a view of the metastore: one of Hive, with qualified names, or one of Spark, with properties for names."""
    parameters = dict(raw.parameters or {})
    text = raw.viewExpandedText or raw.viewOriginalText or ""
    wrapped = _NAMED.fullmatch(text)
    outputs = int(parameters.get("view.query.out.numCols", "0"))
    return ViewDefinition(
        name=TableName(raw.dbName, raw.tableName),
        columns=tuple(_column(column) for column in raw.sd.cols or ()),
        text=text if wrapped is None else wrapped["query"],
        original=raw.viewOriginalText or "",
        outputs=tuple(parameters[f"view.query.out.col.{index}"] for index in range(outputs)),
        database=parameters.get(_DATABASE, raw.dbName),
        properties=tuple((k, v) for k, v in _shown(parameters) if not k.startswith("view.")),
        settings=tuple(
            (k.removeprefix(_SETTING), v) for k, v in sorted(parameters.items()) if k.startswith(_SETTING)
        ),
        comment=parameters.get("comment"),
        owner=raw.owner or "",
        created_at=raw.createTime or 0,
    )


def raw_view(view: ViewDefinition, old: ThriftStruct | None = None) -> ThriftStruct:
    """Convert a view to a ``Table`` that Hive can read; its expanded text names each column.

    Raises UnsupportedFeatureError for a query with columns that have no name, or the same one.
    """
    # Hive's names for its columns stay around its query.
    is_same = old is not None and view_of(old).text == view.text
    expanded_text = old.viewExpandedText if old is not None and is_same else view.text
    outputs = view.outputs or tuple(column.name for column in view.columns)
    if "" in outputs or len({name.lower() for name in outputs}) < len(outputs):
        raise UnsupportedFeatureError(
            f"view {view.name}: in a metastore each column of a view's query has a name of its own: say AS name"
        )
    raw = old if old is not None else protocol.Table(lastAccessTime=0, retention=0, ownerType=USER)
    raw.dbName, raw.tableName, raw.tableType = view.name.database, view.name.name, VIRTUAL
    raw.owner, raw.createTime, raw.partitionKeys = view.owner or raw.owner, view.created_at, []
    raw.parameters = dict(view.properties) | ({} if view.comment is None else {"comment": view.comment})
    raw.parameters |= {f"{_SETTING}{key}": value for key, value in view.settings}
    # t.history and table_changes('t', 1) are looked for where it was made
    if view.database != view.name.database:
        raw.parameters |= {_NAMESPACE.format("numParts"): "2", _NAMESPACE.format("part.0"): "spark_catalog"}
        raw.parameters[_DATABASE] = view.database
    raw.viewOriginalText, raw.viewExpandedText = view.original, expanded_text
    if view.outputs:
        select_list = ", ".join(
            f"{quote_name(output)} AS {quote_name(column.name)}"
            for output, column in zip(outputs, view.columns, strict=True)
        )
        raw.viewExpandedText = f"SELECT {select_list} FROM ({view.text}) `hiveacid_query`"
    raw.sd = protocol.StorageDescriptor(
        cols=[_raw_column(column) for column in view.columns],
        inputFormat=TEXTFILE.input_format,
        outputFormat=TEXTFILE.output_format,
        compressed=False,
        numBuckets=-1,
        serdeInfo=protocol.SerDeInfo(parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
        storedAsSubDirectories=False,
    )
    return raw


def _column(raw: ThriftStruct) -> Column:
    return Column(raw.name, raw.type, raw.comment)


def _bucketing(storage: ThriftStruct) -> Bucketing | None:
    if not storage.bucketCols or (storage.numBuckets or 0) < 1:
        return None
    orders = storage.sortCols or ()
    return Bucketing(
        tuple(storage.bucketCols),
        storage.numBuckets,
        tuple(order.col for order in orders),
        tuple(order.col for order in orders if order.order != _ASCENDING),
    )


def _shown(parameters: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in parameters.items() if k.lower() not in _OF_METASTORE))


def raw_table(table: TableDefinition, old: ThriftStruct | None = None) -> ThriftStruct:
    """Convert a definition to a ``Table``; other fields are taken from ``old``."""
    raw = old if old is not None else protocol.Table(lastAccessTime=0, retention=0, ownerType=USER)
    raw.dbName, raw.tableName = table.name.database, table.name.name
    if table.owner and table.owner != raw.owner:
        raw.owner, raw.ownerType = table.owner, USER
    raw.createTime = table.created_at
    metastore_parameters = {k: v for k, v in (raw.parameters or {}).items() if k.lower() in _OF_METASTORE}
    for key in ("comment", "EXTERNAL", ACCURATE):  # a changed definition makes no statistics exact
        metastore_parameters.pop(key, None)
    raw.parameters = metastore_parameters | dict(table.properties)
    if table.comment is not None:
        raw.parameters["comment"] = table.comment
    raw.tableType = MANAGED
    if table.external:
        raw.tableType = EXTERNAL
        raw.parameters["EXTERNAL"] = "TRUE"
    raw.partitionKeys = [_raw_column(column) for column in table.partition_columns]
    raw.sd = _raw_storage(table, raw.sd)
    return raw


def _raw_storage(table: TableDefinition, old: ThriftStruct | None) -> ThriftStruct:
    storage = (
        old if old is not None else protocol.StorageDescriptor(compressed=False, storedAsSubDirectories=False)
    )
    storage.cols = [_raw_column(column) for column in table.columns]
    storage.location = sent_location(table.location)
    storage.inputFormat, storage.outputFormat = table.storage.input_format, table.storage.output_format
    storage.serdeInfo = storage.serdeInfo or protocol.SerDeInfo(name=table.name.name)
    storage.serdeInfo.serializationLib = table.storage.serde
    storage.serdeInfo.parameters = dict(table.storage.serde_properties)
    storage.parameters = storage.parameters or {}
    bucketing = table.bucketing
    storage.numBuckets = bucketing.count if bucketing else -1
    storage.bucketCols = list(bucketing.columns) if bucketing else []
    storage.sortCols = [
        protocol.Order(col=column, order=0 if bucketing and column in bucketing.descending else _ASCENDING)
        for column in (bucketing.sort_columns if bucketing else ())
    ]
    return storage


def _raw_column(column: Column) -> ThriftStruct:
    return protocol.FieldSchema(name=column.name, type=column.type, comment=column.comment)


def partition_of(raw: ThriftStruct) -> Partition:
    """Return a ``Partition`` of the metastore."""
    return Partition(tuple(raw.values), local(raw.sd.location), _shown(raw.parameters or {}))


def raw_partition(table: ThriftStruct, partition: Partition, now: int) -> ThriftStruct:
    """Return a partition of a table (``Table``) as the metastore takes it; ``now`` in milliseconds."""
    of_table = table.sd
    storage = protocol.StorageDescriptor(
        **{field[2]: getattr(of_table, field[2]) for field in of_table.thrift_spec if field is not None}
    )
    storage.location = sent_location(partition.location)
    return protocol.Partition(
        values=list(partition.key),
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=now // 1000,
        lastAccessTime=0,
        sd=storage,
        parameters=dict(partition.properties),
        catName=table.catName,
    )


def database_of(raw: ThriftStruct, managed: str | None = None) -> DatabaseDefinition:
    """Return a ``Database``; ``managed``: where its transactional tables go, if that is another place."""
    return DatabaseDefinition(
        raw.name,
        local(raw.managedLocationUri or managed or raw.locationUri),
        raw.description or None,
        tuple(sorted((raw.parameters or {}).items())),
        raw.ownerName or "",
    )


def raw_database(database: DatabaseDefinition, owner: str) -> ThriftStruct:
    """Return a database as the metastore takes it."""
    return protocol.Database(
        name=database.name,
        description=database.comment or "",
        locationUri=sent_location(database.location),
        parameters=dict(database.properties),
        ownerName=database.owner or owner,
        ownerType=USER,
    )


QUIET: Mapping[str, str] = MappingProxyType({"DO_NOT_UPDATE_STATS": "true"})
"""Environment of changes that do not affect the number of rows."""
CASCADE: Mapping[str, str] = MappingProxyType({**QUIET, "CASCADE": "true"})
"""The same, and columns change in all partitions as well: Hive reads each partition by its own columns."""


_ALL = -1  # partitions
_MAX_NAMES = 1000  # of one request
_MAX_NEW = 500  # of one request, each with its definition

Values = tuple[str | None, ...]


def fetch_partitions(client: MetastoreClient, name: TableName) -> list[ThriftStruct]:
    """Return all partitions as the metastore has them."""
    return list(client.call("get_partitions", name.database, name.name, _ALL) or ())


def fetch_partition_names(client: MetastoreClient, name: TableName) -> list[str]:
    """Return the names of all partitions."""
    return list(client.call("get_partition_names", name.database, name.name, _ALL) or ())


def require_format_of_table(table: ThriftStruct, raws: Iterable[ThriftStruct]) -> None:
    """Raise UnsupportedFeatureError for a partition whose files are not laid out as the table (``Table``) says.

    Hive keeps a format with each partition: SET FILEFORMAT or SET SERDEPROPERTIES of the table leaves theirs as it was.
    """
    expected = storage_of(table.sd)
    columns = [column.name for column in table.partitionKeys or ()]
    for raw in raws:
        if differs_in_layout(storage_of(raw.sd), expected):
            shown = format_partition(columns, partition_of(raw).values)
            raise UnsupportedFeatureError(
                f"partition {shown} of {table.dbName}.{table.tableName} has another file format or SerDe properties than "
                "the table, and partitions are read only with those of the table. In Hive, set the partition's "
                "(ALTER TABLE ... PARTITION (...) SET FILEFORMAT or SET SERDEPROPERTIES) or copy its rows to a new table"
            )


def fetch_partitions_by_name(
    client: MetastoreClient, name: TableName, names: Sequence[str]
) -> Iterator[ThriftStruct]:
    """Return the existing partitions among those with Hive's ``names``."""
    for start in range(0, len(names), _MAX_NAMES):
        chunk = list(names[start : start + _MAX_NAMES])
        yield from client.call("get_partitions_by_names", name.database, name.name, chunk) or ()


def add_missing_partitions(
    client: MetastoreClient, table: ThriftStruct, partitions: Sequence[Partition], now: int
) -> Mapping[Values, Partition]:
    """Add those partitions that a table (``Table``) lacks; return all of them as they are in the end.

    Another client may add some of them at the same time; its definitions stay. ``now``: milliseconds.
    """
    name = TableName(table.dbName, table.tableName)
    requested: dict[Values, Partition] = {}
    for partition in partitions:
        requested.setdefault(partition.values, partition)
    columns = [column.name for column in table.partitionKeys or ()]
    existing = _by_values(
        fetch_partitions_by_name(client, name, [format_partition(columns, values) for values in requested])
    )
    fresh = [partition for values, partition in requested.items() if values not in existing]
    met = False
    for start in range(0, len(fresh), _MAX_NEW):
        chunk = fresh[start : start + _MAX_NEW]
        if not _add_all_or_none(client, table, chunk, now):
            for partition in chunk:
                met = not _add_all_or_none(client, table, [partition], now) or met
    new_partitions = {partition.values: partition for partition in fresh}
    return _by_values(fetch_partitions(client, name)) if met else {**existing, **new_partitions}


def _add_all_or_none(
    client: MetastoreClient, table: ThriftStruct, partitions: Sequence[Partition], now: int
) -> bool:
    """Add all partitions; return False and add none if one of them exists meanwhile."""
    try:
        client.call("add_partitions", [raw_partition(table, partition, now) for partition in partitions])
    except AlreadyExistsError:
        return False
    return True


def require_in_place(name: TableName, new: Sequence[Partition], there: Mapping[Values, Partition]) -> None:
    """Raise WriteConflictError unless each new partition lies where its rows were written."""
    for partition in new:
        match = there.get(partition.values)
        if match is None or not is_same_location(match.location, partition.location):
            raise WriteConflictError(misplaced_partition(name, partition, match))


def _by_values(raws: Sequence[ThriftStruct] | Iterator[ThriftStruct]) -> dict[Values, Partition]:
    return {partition.values: partition for partition in map(partition_of, raws)}


METADATA = "_metadata"
"""Name of the file. EXPORT writes it last; a directory without it is no dump."""
_VERSION = "0.2"
_NAMES = {2: "tf", 3: "i8", 4: "dbl", 6: "i16", 8: "i32", 10: "i64", 11: "str"}
_NAMES |= {12: "rec", 13: "map", 14: "set", 15: "lst"}
"""Types of ``TJSONProtocol`` by their number."""


def format_dump(table: TableDefinition, partitions: Sequence[Partition], now: int) -> bytes:
    """Return the file's content; ``now`` in milliseconds."""
    raw = raw_table(table)
    dump = {
        "version": _VERSION,
        "table": _text(raw),
        "partitions": [_text(raw_partition(raw, one, now)) for one in partitions],
    }
    return json.dumps(dump, ensure_ascii=False).encode()


def parse_dump(data: bytes, path: str) -> tuple[TableDefinition, tuple[Partition, ...]]:
    """Return the table and its partitions, with the locations that they had.

    Raises BadFileError for other content, UnsupportedFeatureError for a view, a dump for replication, and a partition
    with another format than its table.
    """
    try:
        dump = json.loads(data)
        if dump["version"].partition(".")[0] != _VERSION.partition(".")[0]:
            raise UnsupportedFeatureError(f"{path} has the version {dump['version']}: 0.x can be read")
        if "repl.scope" in dump:
            raise UnsupportedFeatureError(
                f"{path} is of a dump for replication: EXPORT TABLE without FOR REPLICATION"
            )
        # not strict: some of Thrift's libraries write control characters as they are
        raw = _struct(protocol.Table, json.loads(dump["table"], strict=False))
        raws = [_struct(protocol.Partition, json.loads(text, strict=False)) for text in dump["partitions"]]
        problem = _problem(raw, raws)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise BadFileError(f"not the metadata of EXPORT TABLE ({problem[:200]})", path=path)
    if raw.tableType == VIRTUAL:
        raise UnsupportedFeatureError(f"{path} is of a view, which has no rows: CREATE VIEW makes one")
    require_format_of_table(raw, raws)
    return table_of(raw), tuple(map(partition_of, raws))


def _problem(raw: ThriftStruct, partitions: Sequence[ThriftStruct]) -> str | None:
    """Return what is missing in a table and its partitions."""
    missing = next(filter(None, map(missing_required_field, (raw, *partitions))), None)
    keys = raw.partitionKeys or ()
    if not missing and not all(column.name and column.type for column in (*raw.sd.cols, *keys)):
        return "a column without a name or type"
    is_short = not missing and any(len(one.values) != len(keys) for one in partitions)
    return "a partition with another number of values" if is_short else missing


def _text(struct: ThriftStruct) -> str:
    return json.dumps(_fields(struct), ensure_ascii=False, separators=(",", ":"))


def _fields(struct: ThriftStruct) -> dict[str, object]:
    return {
        str(number): {_NAMES[code]: _json(code, arguments, value)}
        for number, code, name, arguments, _ in filter(None, struct.thrift_spec)
        if (value := getattr(struct, name)) is not None
    }


def _json(code: int, arguments: Any, value: Any) -> object:
    match _NAMES[code]:
        case "tf":
            return int(value)
        case "rec":
            return _fields(value)
        case "lst" | "set":
            item, inner, _ = arguments
            return [_NAMES[item], len(value), *(_json(item, inner, one) for one in value)]
        case "map":
            key, _, item, inner, _ = arguments
            values = {name: _json(item, inner, one) for name, one in value.items()}
            return [_NAMES[key], _NAMES[item], len(values), values]
    return value


def _struct(kind: type[ThriftStruct], fields: dict[str, dict[str, Any]]) -> ThriftStruct:
    """Return a struct of its JSON; unknown fields are skipped, other types than the declared ones raise an error."""
    made = kind()
    for number, code, name, arguments, _ in filter(None, kind.thrift_spec):
        field = fields.get(str(number))
        if field is not None:
            setattr(made, name, _value(code, arguments, field[_NAMES[code]]))
    return made


def _value(code: int, arguments: Any, found: Any) -> object:
    match _NAMES[code]:
        case "rec":
            return _struct(arguments[0], found)
        case "lst" | "set":
            item, inner, _ = arguments
            return [_value(item, inner, one) for one in found[2:]]
        case "map":
            _, _, item, inner, _ = arguments
            return {name: _value(item, inner, one) for name, one in found[3].items()}
        case "str" if isinstance(found, str):
            return found
        case "tf" | "i8" | "i16" | "i32" | "i64" if isinstance(found, int):
            return found
    raise TypeError(f"{found!r} instead of {_NAMES[code]}")
