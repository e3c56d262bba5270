"""Overwrite by condition: delete the rows that a condition selects and insert new ones, in one job and one commit."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import Expression, selected
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.column_casts import fit_columns
from hiveacid.spark.write.sort_and_stage import ACTION, Action
from hiveacid.spark.write.update_delete_merge_rows import changed_rows
from hiveacid.table.context import Context
from hiveacid.table.write.conflict_retry import run_with_retry
from hiveacid.table.write.constraints import constrain_changes
from hiveacid.table.write.report import WriteReport
from hiveacid.table.write.update_delete import select_by_spark, stage_by_spark, write_changes
from hiveacid.transactions.transaction import Transaction


def replace_rows(
    context: Context, name: TableName, rows: DataFrame, where: Expression, joined: Transaction | None
) -> WriteReport:
    """Delete the rows that ``where`` selects and insert ``rows``, whose columns are matched by name.

    New rows need not fulfil ``where``. The statement locks out other writers: otherwise two concurrent calls whose
    conditions select no row would not conflict, and both would insert their rows.

    Raises SchemaMismatchError, NoSuchTableError, InsertOnlyError, WriteConflictError.
    """

    def run(table: TableDefinition, txn: Transaction) -> WriteReport:
        with translate_errors():
            old_rows, _ = select_by_spark(context, table, txn, where, None)
            deletes = changed_rows(table, old_rows, {})
            fitted = fit_columns(table, rows, {}, None, by_name=True)
            row_id_type = deletes.schema[ROW_ID].dataType.simpleString()
            leading = [f"{int(Action.INSERT)} AS {ACTION}", f"CAST(NULL AS {row_id_type}) AS {ROW_ID}"]
            inserts = selected(fitted, [*leading, *map(quote_name, table.column_names)])
            changes = constrain_changes(context, table, deletes.union(inserts))
        return write_changes(context, table, txn, stage_by_spark(context, changes), "OVERWRITE")

    return run_with_retry(context, name, "OVERWRITE", joined, run, exclusive=True)
