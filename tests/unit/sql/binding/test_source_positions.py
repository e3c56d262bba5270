"""Positions in Spark's errors, mapped to the user's text."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from hiveacid.errors import NoSuchTableError
from hiveacid.sql.binding.source_positions import errors_at, spark_errors_at_source
from hiveacid.sql.statements import Slice


def test_places_count_from_the_whole_text() -> None:
    piece = Slice("a +\n  b", 30, 5, 12)
    assert piece.position(0) == (5, 12)
    assert piece.position(6) == (6, 3)


def test_a_complaint_of_spark_points_into_the_users_text() -> None:
    first, second = Slice("qty + 1", 0, 3, 20), Slice("id = nope", 0, 4, 7)
    complaint = "[UNRESOLVED_COLUMN] name `nope` cannot be resolved; line 1 pos 5;\n'Project"
    with pytest.raises(Exception, match=r"\(line 4, column 12\)"), spark_errors_at_source(first, second):
        raise AnalysisException(complaint)


def test_a_name_gets_its_place_once() -> None:
    with pytest.raises(NoSuchTableError) as caught, errors_at(9, 9), errors_at(2, 3):
        raise NoSuchTableError("table t does not exist")
    assert str(caught.value) == "table t does not exist (line 2, column 3)"
