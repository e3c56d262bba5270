"""Ends of messages, and errors that several places raise."""

from __future__ import annotations

import inspect
import pickle
import re
from http import HTTPStatus

from hiveacid import errors
from hiveacid.errors import acid_v1, did_you_mean, first_few, no_such_column, no_such_database
from hiveacid.serve.transports import RefusedRequestError


def test_a_list_in_a_message_is_short_and_says_how_much_it_leaves_out() -> None:
    assert first_few(["a", "b"]) == "a, b"
    assert first_few(dict.fromkeys("abcde")) == "a, b, c, d, e"
    assert first_few(tuple("abcdefg")) == "a, b, c, d, e and 2 more"


def test_suggestions_are_similar_and_bounded() -> None:
    assert did_you_mean("stok", ["sales", "Stock"]) == "; did you mean Stock?"
    assert did_you_mean("zebra", ["sales", "stock"]) == ""
    assert did_you_mean("x" * 10_000, ["x" * 9_999]) == ""
    assert did_you_mean("stock1", (f"n{i}" for i in range(10**6))) == ""


def test_a_missing_column_is_told_with_those_there_are_and_its_position() -> None:
    error = no_such_column("d.t", "nme", ["id", "name"], purpose=" to insert into", line=2, column=7)
    assert error.message == "d.t has no column nme to insert into; it has id, name; did you mean name?"
    assert (error.line, error.column, error.code) == (2, 7, "10002")
    assert str(no_such_column("d.t", "p", (), kind="partition column")) == (
        "d.t has no partition column p; it has none"
    )


def test_a_missing_database_and_old_events_say_what_to_do() -> None:
    assert str(no_such_database("sale", ["sales"])) == (
        "database sale does not exist: see SHOW DATABASES; did you mean sales?"
    )
    assert "d.t holds update events" in str(acid_v1("d.t"))
    assert "COMPACT 'major'" in str(acid_v1("d.t"))


def test_every_error_is_the_same_after_pickling() -> None:
    """Workers of Spark and other processes send errors so."""
    one_of_each: list[errors.HiveAcidError] = [
        errors.FailedTransactionError(7, "a statement failed"),
        errors.BadRecordError(3, "a,b", "no number"),
        errors.BadFileError("is cut off", path="/t/f"),
        errors.ParseError("a word is missing", line=2, column=7),
        RefusedRequestError(HTTPStatus.UNAUTHORIZED, "wrong user or password", "ann"),
        errors.WriteConflictError("lost"),
    ]
    for error in one_of_each:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own bytes
        assert type(copy) is type(error)
        assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


def test_the_tree_in_the_docstring_names_every_class() -> None:
    defined = {name for name, _ in inspect.getmembers(errors, inspect.isclass) if name.endswith("Error")}
    assert defined == set(re.findall(r"\w+Error\b", errors.__doc__ or ""))
