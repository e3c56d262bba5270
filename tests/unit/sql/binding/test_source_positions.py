"""Positions in Spark's errors, mapped to the user's text."""

from __future__ import annotations

import pickle

import pytest
from pyspark.errors import AnalysisException

from hiveacid.core.model import TableName
from hiveacid.errors import CatalogError, NoSuchTableError, ParseError
from hiveacid.sql.binding.source_positions import errors_at, spark_errors_at_source
from hiveacid.sql.binding.view_text import errors_of_view
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
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert caught.value.message == "table t does not exist"


def test_an_error_of_a_views_query_has_the_place_of_the_views_name() -> None:
    view = TableName("d", "v")
    with pytest.raises(CatalogError) as caught, errors_of_view(view, 4, 5), errors_at(1, 9):
        raise NoSuchTableError("table t does not exist")
    assert str(caught.value) == "view d.v: table t does not exist (line 4, column 5)"
    assert (caught.value.line, caught.value.column) == (4, 5)


def test_the_place_of_a_name_stays_where_spark_reports_another() -> None:
    piece = Slice("SELECT 1", 0, 1, 1)
    with pytest.raises(NoSuchTableError) as caught, spark_errors_at_source(piece), errors_at(2, 3):
        raise NoSuchTableError("table t does not exist") from AnalysisException("no t; line 1 pos 4")
    assert (caught.value.line, caught.value.column) == (2, 3)


def test_a_place_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(ParseError("no", line=2, column=5)))  # noqa: S301 - made here
    assert (str(copy), copy.line, copy.column) == ("no (line 2, column 5)", 2, 5)
