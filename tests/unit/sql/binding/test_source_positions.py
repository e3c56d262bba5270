"""The way back from Spark's text to the user's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException

from hiveacid.errors import NoSuchTableError
from hiveacid.sql.binding.source_positions import Edit, EditedText, errors_at, spark_errors_at_source
from hiveacid.sql.statements.values import Slice


def test_edits_are_made_and_undone() -> None:
    piece = EditedText(
        Slice("SELECT * FROM t, u", 0, 1, 1), (Edit(17, 18, "view_two"), Edit(14, 15, "view_one AS t"))
    )
    assert piece.text == "SELECT * FROM view_one AS t, view_two"
    assert piece.original(9) == 9
    assert piece.original(20) == 14
    assert piece.original(piece.text.index(",")) == 15
    assert piece.original(piece.text.index("view_two")) == 17


@given(st.text("ab\n", max_size=20), st.data())
def test_what_was_not_changed_keeps_its_place(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    piece = EditedText(Slice(text, 0, 1, 1), (Edit(start, end, "XYZ"),))
    for offset, letter in enumerate(piece.text):
        if letter not in "XYZ":
            assert text[piece.original(offset)] == letter


def test_places_count_from_the_whole_text() -> None:
    piece = EditedText(Slice("a +\n  b", 30, 5, 12))
    assert piece.place(0) == (5, 12)
    assert piece.place(6) == (6, 3)


def test_a_complaint_of_spark_points_into_the_users_text() -> None:
    first, second = EditedText(Slice("qty + 1", 0, 3, 20)), EditedText(Slice("id = nope", 0, 4, 7))
    complaint = "[UNRESOLVED_COLUMN] name `nope` cannot be resolved; line 1 pos 5;\n'Project"
    with pytest.raises(Exception, match=r"\(line 4, column 12\)"), spark_errors_at_source(first, second):
        raise AnalysisException(complaint)


def test_a_name_gets_its_place_once() -> None:
    with pytest.raises(NoSuchTableError) as caught, errors_at(9, 9), errors_at(2, 3):
        raise NoSuchTableError("table t does not exist")
    assert str(caught.value) == "table t does not exist (line 2, column 3)"
