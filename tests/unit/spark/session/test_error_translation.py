"""Spark's errors about a file system that does not answer, or is full, are errors of this project."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from hiveacid.errors import StorageError
from hiveacid.spark.session.error_translation import is_failed_job, translate

_TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times: "
)
_READ = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file hdfs://n:1/t/bucket_00000. SQLSTATE: KD001\n"
_CALL = "java.net.ConnectException: Call From vm/127.0.0.1 to n:1 failed on connection exception: java.net."
_CALL += "ConnectException: Connection refused; For more details see:  http://wiki.apache.org/hadoop/ConnectionRefused"
_END = 'java.io.EOFException: End of File Exception between local host is: "vm/127.0.0.1"; destination host is: "n":1; : '
_END += "java.io.EOFException; For more details see:  http://wiki.apache.org/hadoop/EOFException"
_S3A = "org.apache.hadoop.fs.s3a.AWSClientIOException: getFileStatus on s3a://b/t: Unable to execute HTTP request"


@pytest.mark.parametrize("said", [_CALL, _END, _S3A])
@pytest.mark.parametrize("before", [_TASK, f"{_READ}Caused by: "])
def test_a_server_that_does_not_answer_is_no_damaged_file(before: str, said: str) -> None:
    error = translate(PySparkException(message=f"{before}{said}\n\tat org.apache.hadoop.ipc.Client.call"))
    assert isinstance(error, StorageError)
    assert str(error).endswith(f"a file system could not be reached: {said}")


def test_a_full_disk_is_told_without_classes_of_java() -> None:
    said = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/wh/t. SQLSTATE: 58030\n"
    said += "Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device"
    error = translate(PySparkException(message=said))
    assert isinstance(error, StorageError)
    assert str(error) == "No space left on device (rows were written to file:/wh/t)"


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        (f"{_TASK}java.io.FileNotFoundException: /wh/cancelled_orders/bucket_00000", True),
        ("[SPARK_JOB_CANCELLED] Job 7 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA", False),
        ("org.apache.spark.SparkException: Job 0 cancelled part of cancelled job group 12", False),
    ],
)
def test_a_cancelled_job_has_not_failed(said: str, *, failed: bool) -> None:
    assert is_failed_job(PySparkException(message=said)) is failed
