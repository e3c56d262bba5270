"""What of the suite is not run on Spark Connect, and why. By file, or by file and test."""

JVM = "looks into the JVM of a classic session"
NATIVE = "spark.sql itself needs a classic session"

EXCEPTIONS = {
    "spark/test_conditions.py": "conditions are read from Spark's own trees: " + JVM,
    "spark/test_object_store.py": "the server of the tests has no jars of s3a://",
    "spark/test_search_argument.py": "row groups are skipped by Java objects: " + JVM,
    "spark/test_relations.py": "Spark's own parser: " + JVM,
    "spark/test_lexer.py": "compared with Spark's own parser: " + JVM,
    "spark/test_plans.py": "the plans of classic Spark: " + JVM,
    "spark/test_lease.py": "when the JVM's garbage collector lets a plan go: " + JVM,
    "spark/test_native.py": NATIVE,
    "spark/test_past_in_sql.py::test_the_past_of_a_table[native]": NATIVE,
    "spark/test_past_in_sql.py::test_names_and_places[native]": NATIVE,
    "spark/test_pruning.py::test_partitions_that_match_stay[date-values24": "a function leaves no partition out there",
    "spark/test_pruning.py::test_partitions_that_match_stay[string-values31": "a function leaves no partition out there",
    "spark/test_pruning.py::test_unknown_columns_are_refused": "they are when the rows are filtered",
    "spark/test_pruning.py::test_other_alias": "they are when the rows are filtered",
    "spark/test_pruning.py::test_python_answers_as_spark_does": "Spark judges all conditions there",
    "spark/test_pruning.py::test_ten_thousand_partitions_take_no_time": "Spark judges all conditions there",
    "spark/test_sql_session.py::test_what_the_user_cached_stays_cached": "the server drops what is cached with its view",
    "spark/test_sql_session.py::test_small_results_need_no_job": "counts jobs: " + JVM,
    "spark/test_text.py::test_any_line_is_read_as_hive_reads_it": "asks Hive's class: " + JVM,
    "spark/test_text.py::test_hive_reads_what_we_write_with_escapes": "asks Hive's class: " + JVM,
    "spark/test_text.py::test_delimiters_of_other_levels_are_plain_text": "asks Hive's class: " + JVM,
    "spark/test_stream_writer.py": 'foreachBatch runs in the server: writeStream.format("hiveacid") does the same',
    "spark/test_compaction_order.py": "tasks of their own for each file need a second session: " + JVM,
    "spark/test_cli.py": "the command line starts a session of its own, a classic one",
    "spark/test_documents.py": "the pages start sessions of their own, classic ones",
    "spark/test_demo.py": "the demo starts a session of its own, a classic one",
    "sql/test_scripts.py::test_script_by_spark_sql": NATIVE,
}
