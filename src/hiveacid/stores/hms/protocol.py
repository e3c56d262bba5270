"""Structs and calls of the metastore's interface that hiveacid uses, in the words of ``hive_metastore.thrift``.

Recorded from servers of 3.1.3 and 4.0.1. An older server skips fields that only newer ones know. Fields that would
change what an older server does are only set where ``capabilities.py`` says so. Only fields that are read without a check
are ``required``; enumerations are numbers.
"""

from __future__ import annotations

from hiveacid.stores.hms.thrift_structs import ThriftStruct, parse_interface

_STRUCTS = """
# transactions
struct OpenTxnRequest {
    1: i32 num_txns, 2: string user, 3: string hostname, 4: string agentInfo, 7: i32 txn_type
}
struct OpenTxnsResponse { 1: required list<i64> txn_ids }
struct AbortTxnRequest { 1: i64 txnid }
struct CommitTxnRequest { 1: i64 txnid, 6: bool exclWriteEnabled, 7: i32 txn_type }
struct GetOpenTxnsResponse {
    1: required i64 txn_high_water_mark, 2: required list<i64> open_txns, 3: i64 min_open_txn,
    4: binary abortedBits
}
struct TxnInfo {
    1: required i64 id, 2: required i32 state, 3: required string user, 4: required string hostname,
    5: string agentInfo, 8: i64 startedTime, 9: i64 lastHeartbeatTime
}
struct GetOpenTxnsInfoResponse { 1: required i64 txn_high_water_mark, 2: required list<TxnInfo> open_txns }
struct HeartbeatTxnRangeRequest { 1: i64 min, 2: i64 max }
struct HeartbeatTxnRangeResponse { 1: required set<i64> aborted, 2: required set<i64> nosuch }

# write ids
struct GetValidWriteIdsRequest { 1: list<string> fullTableNames, 2: string validTxnList }
struct TableValidWriteIds {
    1: required string fullTableName, 2: required i64 writeIdHighWaterMark,
    3: required list<i64> invalidWriteIds, 4: i64 minOpenWriteId, 5: binary abortedBits
}
struct GetValidWriteIdsResponse { 1: required list<TableValidWriteIds> tblValidWriteIds }
struct AllocateTableWriteIdsRequest { 1: string dbName, 2: string tableName, 3: list<i64> txnIds }
struct TxnToWriteId { 1: required i64 txnId, 2: required i64 writeId }
struct AllocateTableWriteIdsResponse { 1: required list<TxnToWriteId> txnToWriteIds }
struct AddDynamicPartitions {
    1: i64 txnid, 2: i64 writeid, 3: string dbname, 4: string tablename, 5: list<string> partitionnames,
    6: i32 operationType
}
struct ReplTblWriteIdStateRequest {
    1: string validWriteIdlist, 2: string user, 3: string hostName, 4: string dbName, 5: string tableName
}
struct SeedTxnIdRequest { 1: i64 seedTxnId }

# locks
struct LockComponent {
    1: i32 type, 2: i32 level, 3: string dbname, 4: string tablename, 5: string partitionname,
    6: i32 operationType, 7: bool isTransactional, 8: bool isDynamicPartitionWrite
}
struct LockRequest {
    1: list<LockComponent> component, 2: i64 txnid, 3: string user, 4: string hostname,
    5: string agentInfo
}
struct LockResponse { 1: required i64 lockid, 2: required i32 state, 3: string errorMessage }
struct CheckLockRequest { 1: i64 lockid, 2: i64 txnid, 3: i64 elapsed_ms }
struct UnlockRequest { 1: i64 lockid }
struct ShowLocksRequest { 1: string dbname, 2: string tablename, 3: string partname, 4: bool isExtended }
struct ShowLocksResponseElement {
    1: required i64 lockid, 2: required string dbname, 3: string tablename, 4: string partname,
    5: required i32 state, 6: required i32 type, 7: i64 txnid, 8: i64 lastheartbeat, 9: i64 acquiredat,
    10: required string user, 11: required string hostname, 13: string agentInfo, 14: i64 blockedByExtId,
    15: i64 blockedByIntId, 16: i64 lockIdInternal
}
struct ShowLocksResponse { 1: required list<ShowLocksResponseElement> locks }

# catalog
struct FieldSchema { 1: string name, 2: string type, 3: string comment }
struct Order { 1: string col, 2: i32 order }
struct SerDeInfo {
    1: string name, 2: string serializationLib, 3: map<string,string> parameters, 4: string description,
    5: string serializerClass, 6: string deserializerClass, 7: i32 serdeType
}
struct SkewedInfo {
    1: list<string> skewedColNames, 2: list<list<string>> skewedColValues,
    3: map<list<string>,string> skewedColValueLocationMaps
}
struct StorageDescriptor {
    1: list<FieldSchema> cols, 2: string location, 3: string inputFormat, 4: string outputFormat,
    5: bool compressed, 6: i32 numBuckets, 7: required SerDeInfo serdeInfo, 8: list<string> bucketCols,
    9: list<Order> sortCols, 10: map<string,string> parameters, 11: SkewedInfo skewedInfo,
    12: bool storedAsSubDirectories
}
struct ObjectDictionary { 1: map<string,list<binary>> values }
struct Table {
    1: required string tableName, 2: required string dbName, 3: string owner, 4: i32 createTime,
    5: i32 lastAccessTime, 6: i32 retention, 7: required StorageDescriptor sd,
    8: list<FieldSchema> partitionKeys, 9: map<string,string> parameters, 10: string viewOriginalText,
    11: string viewExpandedText, 12: string tableType, 14: bool temporary, 15: bool rewriteEnabled,
    17: string catName, 18: i32 ownerType, 19: i64 writeId, 25: i64 id,
    27: ObjectDictionary dictionary
}
struct Partition {
    1: required list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime,
    5: i32 lastAccessTime, 6: required StorageDescriptor sd, 7: map<string,string> parameters,
    9: string catName, 10: i64 writeId
}
struct Database {
    1: required string name, 2: string description, 3: string locationUri,
    4: map<string,string> parameters, 6: string ownerName, 7: i32 ownerType, 8: string catalogName,
    10: string managedLocationUri
}
struct EnvironmentContext { 1: map<string,string> properties }
struct ClientCapabilities { 1: list<i32> values }
struct GetTableRequest {
    1: string dbName, 2: string tblName, 3: ClientCapabilities capabilities, 4: string catName,
    8: list<string> processorCapabilities, 9: string processorIdentifier
}
struct GetTableResult { 1: required Table table }
struct GetTablesRequest {
    1: required string dbName, 2: list<string> tblNames, 3: ClientCapabilities capabilities, 4: string catName,
    5: list<string> processorCapabilities, 6: string processorIdentifier
}
struct GetTablesResult { 1: required list<Table> tables }
struct CreateTableRequest {
    1: Table table, 2: EnvironmentContext envContext, 9: list<string> processorCapabilities,
    10: string processorIdentifier
}
struct AlterTableRequest {
    1: string catName, 2: string dbName, 3: string tableName, 4: Table table,
    5: EnvironmentContext environmentContext, 6: i64 writeId, 7: string validWriteIdList,
    8: list<string> processorCapabilities, 9: string processorIdentifier
}
struct AlterTableResponse {}
struct AlterPartitionsRequest {
    1: string catName, 2: string dbName, 3: string tableName, 4: list<Partition> partitions,
    5: EnvironmentContext environmentContext, 6: i64 writeId, 7: string validWriteIdList
}
struct AlterPartitionsResponse {}

# constraints. The same request for most kinds; it needs ``catName``
struct ConstraintsRequest { 1: string catName, 2: string db_name, 3: string tbl_name }
struct PrimaryKeysRequest { 1: string db_name, 2: string tbl_name, 3: string catName }
struct ForeignKeysRequest {
    1: string parent_db_name, 2: string parent_tbl_name, 3: string foreign_db_name, 4: string foreign_tbl_name,
    5: string catName
}
struct SQLPrimaryKey {
    1: string table_db, 2: string table_name, 3: string column_name, 4: i32 key_seq, 5: string pk_name,
    6: bool enable_cstr, 7: bool validate_cstr, 8: bool rely_cstr, 9: string catName
}
struct SQLForeignKey {
    1: string pktable_db, 2: string pktable_name, 3: string pkcolumn_name, 4: string fktable_db,
    5: string fktable_name, 6: string fkcolumn_name, 7: i32 key_seq, 8: i32 update_rule, 9: i32 delete_rule,
    10: string fk_name, 11: string pk_name, 12: bool enable_cstr, 13: bool validate_cstr, 14: bool rely_cstr,
    15: string catName
}
struct SQLUniqueConstraint {
    1: string catName, 2: string table_db, 3: string table_name, 4: string column_name, 5: i32 key_seq,
    6: string uk_name, 7: bool enable_cstr, 8: bool validate_cstr, 9: bool rely_cstr
}
struct SQLNotNullConstraint {
    1: string catName, 2: string table_db, 3: string table_name, 4: string column_name, 5: string nn_name,
    6: bool enable_cstr, 7: bool validate_cstr, 8: bool rely_cstr
}
struct SQLDefaultConstraint {
    1: string catName, 2: string table_db, 3: string table_name, 4: string column_name, 5: string default_value,
    6: string dc_name, 7: bool enable_cstr, 8: bool validate_cstr, 9: bool rely_cstr
}
struct SQLCheckConstraint {
    1: string catName, 2: string table_db, 3: string table_name, 4: string column_name,
    5: string check_expression, 6: string dc_name, 7: bool enable_cstr, 8: bool validate_cstr, 9: bool rely_cstr
}
struct PrimaryKeysResponse { 1: list<SQLPrimaryKey> primaryKeys }
struct ForeignKeysResponse { 1: list<SQLForeignKey> foreignKeys }
struct UniqueConstraintsResponse { 1: list<SQLUniqueConstraint> uniqueConstraints }
struct NotNullConstraintsResponse { 1: list<SQLNotNullConstraint> notNullConstraints }
struct DefaultConstraintsResponse { 1: list<SQLDefaultConstraint> defaultConstraints }
struct CheckConstraintsResponse { 1: list<SQLCheckConstraint> checkConstraints }
struct AllTableConstraintsRequest { 1: string dbName, 2: string tblName, 3: string catName }
struct SQLAllTableConstraints {
    1: list<SQLPrimaryKey> primaryKeys, 2: list<SQLForeignKey> foreignKeys,
    3: list<SQLUniqueConstraint> uniqueConstraints, 4: list<SQLNotNullConstraint> notNullConstraints,
    5: list<SQLDefaultConstraint> defaultConstraints, 6: list<SQLCheckConstraint> checkConstraints
}
struct AllTableConstraintsResponse { 1: SQLAllTableConstraints allTableConstraints }
struct AddPrimaryKeyRequest { 1: list<SQLPrimaryKey> primaryKeyCols }
struct AddForeignKeyRequest { 1: list<SQLForeignKey> foreignKeyCols }
struct AddUniqueConstraintRequest { 1: list<SQLUniqueConstraint> uniqueConstraintCols }
struct AddNotNullConstraintRequest { 1: list<SQLNotNullConstraint> notNullConstraintCols }
struct AddDefaultConstraintRequest { 1: list<SQLDefaultConstraint> defaultConstraintCols }
struct AddCheckConstraintRequest { 1: list<SQLCheckConstraint> checkConstraintCols }
struct DropConstraintRequest {
    1: string dbname, 2: string tablename, 3: string constraintname, 4: string catName
}

# events about files, for listeners
struct InsertEventRequestData {
    1: bool replace, 2: list<string> filesAdded, 3: list<string> filesAddedChecksum,
    4: list<string> subDirectoryList
}
struct FireEventRequestData { 1: InsertEventRequestData insertData }
struct FireEventRequest {
    1: bool successful, 2: FireEventRequestData data, 3: string dbName, 4: string tableName,
    5: list<string> partitionVals
}
struct FireEventResponse {}
struct WriteNotificationLogRequest {
    1: i64 txnId, 2: i64 writeId, 3: string db, 4: string table, 5: InsertEventRequestData fileInfo,
    6: list<string> partitionVals
}
struct WriteNotificationLogResponse {}

# compaction queue
struct CompactionRequest {
    1: string dbname, 2: string tablename, 3: string partitionname, 4: i32 type, 5: string runas,
    6: map<string,string> properties, 7: string initiatorId, 9: string poolName, 10: i32 numberOfBuckets,
    11: string orderByClause
}
struct CompactionResponse {
    1: required i64 id, 2: required string state, 3: required bool accepted, 4: string errormessage
}
struct ShowCompactRequest {}
struct ShowCompactResponseElement {
    1: required string dbname, 2: required string tablename, 3: string partitionname,
    4: required i32 type, 5: required string state, 6: string workerid, 7: i64 start, 10: string metaInfo,
    11: i64 endTime, 13: required i64 id, 14: string errorMessage, 15: i64 enqueueTime,
    17: string initiatorId, 20: string poolName, 21: i64 nextTxnId, 22: i64 txnId, 23: i64 commitTime,
    24: i64 hightestWriteId
}
struct ShowCompactResponse { 1: required list<ShowCompactResponseElement> compacts }
struct CompactionInfoStruct {
    1: required i64 id, 2: required string dbname, 3: required string tablename, 4: string partitionname,
    5: required i32 type, 6: string runas, 7: string properties, 10: string workerId,
    12: i64 highestWriteId, 13: string errorMessage, 17: string poolname, 18: i32 numberOfBuckets,
    19: string orderByClause
}
struct OptionalCompactionInfoStruct { 1: CompactionInfoStruct ci }
struct FindNextCompactRequest { 1: string workerId, 2: string workerVersion, 3: string poolName }
struct AbortCompactionRequest { 1: list<i64> compactionIds }
struct AbortCompactionResponseElement { 1: i64 compactionId, 2: string status, 3: string message }
struct AbortCompactResponse { 1: map<i64,AbortCompactionResponseElement> abortedcompacts }
"""

# once: must not be sent again after a lost answer
_CALLS = """
string getVersion()
string get_config_value(1: string name, 2: string defaultValue) throws (1: ConfigValSecurityException o1)
# A lost answer leaves transactions that time out.
OpenTxnsResponse open_txns(1: OpenTxnRequest rqst)
void abort_txn(1: AbortTxnRequest rqst) throws (1: NoSuchTxnException o1)
once void commit_txn(1: CommitTxnRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
GetOpenTxnsResponse get_open_txns()
GetOpenTxnsInfoResponse get_open_txns_info()
HeartbeatTxnRangeResponse heartbeat_txn_range(1: HeartbeatTxnRangeRequest txns)
GetValidWriteIdsResponse get_valid_write_ids(1: GetValidWriteIdsRequest rqst)
    throws (1: NoSuchTxnException o1, 2: MetaException o2)
void add_write_ids_to_min_history(1: i64 txnId, 2: map<string,i64> writeIds) throws (1: MetaException o1)
# It can be repeated: a transaction keeps its write id of a table.
AllocateTableWriteIdsResponse allocate_table_write_ids(1: AllocateTableWriteIdsRequest rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: MetaException o3)
# It can be repeated: a partition that is recorded twice counts once.
void add_dynamic_partitions(1: AddDynamicPartitions rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
void repl_tbl_writeid_state(1: ReplTblWriteIdStateRequest rqst)
once void seed_txn_id(1: SeedTxnIdRequest rqst) throws (1: MetaException o1)
# It can be repeated: locks of a repeated request end with the transaction, which never waits for its own.
LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2)
LockResponse check_lock(1: CheckLockRequest rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3)
void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2)
ShowLocksResponse show_locks(1: ShowLocksRequest rqst)
once CompactionResponse compact2(1: CompactionRequest rqst)
ShowCompactResponse show_compact(1: ShowCompactRequest rqst)
# A job whose answer was lost is found by its worker's name, and marked as failed.
once OptionalCompactionInfoStruct find_next_compact2(1: FindNextCompactRequest rqst) throws (1: MetaException o1)
void update_compactor_state(1: CompactionInfoStruct cr, 2: i64 txn_id)
void set_hadoop_jobid(1: string jobId, 2: i64 cq_id)
void mark_compacted(1: CompactionInfoStruct cr) throws (1: MetaException o1)
void mark_failed(1: CompactionInfoStruct cr) throws (1: MetaException o1)
void mark_refused(1: CompactionInfoStruct cr) throws (1: MetaException o1)
AbortCompactResponse abort_Compactions(1: AbortCompactionRequest rqst)
# Files that are sent twice count once.
FireEventResponse fire_listener_event(1: FireEventRequest rqst)
WriteNotificationLogResponse add_write_notification_log(1: WriteNotificationLogRequest rqst)
list<string> get_all_databases() throws (1: MetaException o1)
Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void create_database(1: Database database)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3)
void alter_database(1: string dbname, 2: Database db) throws (1: MetaException o1, 2: NoSuchObjectException o2)
once void drop_database(1: string name, 2: bool deleteData, 3: bool cascade)
    throws (1: NoSuchObjectException o1, 2: InvalidOperationException o2, 3: MetaException o3)
list<string> get_tables_by_type(1: string db_name, 2: string pattern, 3: string tableType)
    throws (1: MetaException o1)
GetTableResult get_table_req(1: GetTableRequest req) throws (1: MetaException o1, 2: NoSuchObjectException o2)
GetTablesResult get_table_objects_by_name_req(1: GetTablesRequest req)
    throws (1: MetaException o1, 2: InvalidOperationException o2, 3: NoSuchObjectException o3)
NotNullConstraintsResponse get_not_null_constraints(1: ConstraintsRequest request)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
DefaultConstraintsResponse get_default_constraints(1: ConstraintsRequest request)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
CheckConstraintsResponse get_check_constraints(1: ConstraintsRequest request)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
PrimaryKeysResponse get_primary_keys(1: PrimaryKeysRequest request)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
ForeignKeysResponse get_foreign_keys(1: ForeignKeysRequest request)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
UniqueConstraintsResponse get_unique_constraints(1: ConstraintsRequest request)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
once void add_primary_key(1: AddPrimaryKeyRequest req) throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void add_foreign_key(1: AddForeignKeyRequest req) throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void add_unique_constraint(1: AddUniqueConstraintRequest req)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void add_not_null_constraint(1: AddNotNullConstraintRequest req)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void add_default_constraint(1: AddDefaultConstraintRequest req)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void add_check_constraint(1: AddCheckConstraintRequest req)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void drop_constraint(1: DropConstraintRequest req) throws (1: NoSuchObjectException o1, 2: MetaException o3)
# Hive 4
AllTableConstraintsResponse get_all_table_constraints(1: AllTableConstraintsRequest request)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
once void create_table_with_environment_context(1: Table tbl, 2: EnvironmentContext environment_context)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3, 4: NoSuchObjectException o4)
once void create_table_req(1: CreateTableRequest request)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3, 4: NoSuchObjectException o4)
once void drop_table_with_environment_context(1: string dbname, 2: string name, 3: bool deleteData, 4: EnvironmentContext environment_context)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
once void alter_table_with_environment_context(1: string dbname, 2: string tbl_name, 3: Table new_tbl, 4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
once AlterTableResponse alter_table_req(1: AlterTableRequest req)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
once i32 add_partitions(1: list<Partition> new_parts)
    throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3)
list<Partition> get_partitions(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
list<string> get_partition_names(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
list<Partition> get_partitions_by_names(1: string db_name, 2: string tbl_name, 3: list<string> names)
    throws (1: MetaException o1, 2: NoSuchObjectException o2)
once void alter_partition_with_environment_context(1: string db_name, 2: string tbl_name, 3: Partition new_part, 4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
once AlterPartitionsResponse alter_partitions_req(1: AlterPartitionsRequest req)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
once void rename_partition(1: string db_name, 2: string tbl_name, 3: list<string> part_vals, 4: Partition new_part)
    throws (1: InvalidOperationException o1, 2: MetaException o2)
once bool drop_partition_with_environment_context(1: string db_name, 2: string tbl_name, 3: list<string> part_vals, 4: bool deleteData, 5: EnvironmentContext environment_context)
    throws (1: NoSuchObjectException o1, 2: MetaException o2)
"""

_INTERFACE = parse_interface(_STRUCTS + _CALLS)
METHODS = _INTERFACE.calls


def __getattr__(name: str) -> type[ThriftStruct]:
    """Return a struct by its name."""
    try:
        return _INTERFACE.structs[name]
    except KeyError:
        raise AttributeError(name) from None
