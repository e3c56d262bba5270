"""Surrogate keys have Hive's bits, and no two rows of a table the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.model import WriteId
from hiveacid.core.schema.surrogate_keys import SurrogateKey
from hiveacid.errors import UnsupportedFeatureError


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("SURROGATE_KEY()", SurrogateKey(24, 16)),
        (" (surrogate_key ( 20 , 10 ))", SurrogateKey(20, 10)),
        ("`surrogate_key`(1, 62)", SurrogateKey(1, 62)),
        ("'surrogate_key'", None),
        ("surrogate_keys()", None),
        ("5", None),
    ],
)
def test_the_call_is_read_as_hive_reads_it(text: str, key: SurrogateKey | None) -> None:
    assert SurrogateKey.parse(text) == key


@pytest.mark.parametrize(
    "text",
    [
        "SURROGATE_KEY(24)",
        "SURROGATE_KEY(0, 16)",
        "SURROGATE_KEY(63, 1)",
        "SURROGATE_KEY(32, 32)",
        "surrogate_key() + 1",
        "CAST(surrogate_key() AS STRING)",
    ],
)
def test_other_calls_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="bits"):
        SurrogateKey.parse(text)


def test_a_key_is_the_number_that_hive_computes() -> None:
    keys = SurrogateKey().sequence(WriteId(1))
    assert keys is not None
    assert keys.key(0, 0) == 1099511627776  # of an example that was published
    assert keys.key(3, 5) == (1 << 40) + (3 << 24) + 5
    last = SurrogateKey().sequence(WriteId((1 << 24) - 1))
    assert last is not None
    assert last.key(65535, (1 << 24) - 1) == -1  # the highest bit is the sign in Java


_BITS = st.integers(1, 62)


@given(st.data(), _BITS, _BITS)
def test_no_two_rows_of_a_table_have_one_key(data: st.DataObject, write_id_bits: int, task_bits: int) -> None:
    """Rows differ in write id, in the statement of the transaction, in the clause of a MERGE, in task, or in number."""
    if write_id_bits + task_bits > 63:
        return
    key = SurrogateKey(write_id_bits, task_bits)
    alone, clauses = data.draw(st.booleans()), data.draw(st.integers(1, 4))
    found: dict[int, tuple[int, ...]] = {}
    for _ in range(20):
        write_id, statement, clause = (data.draw(st.integers(0, most)) for most in (5, 3, clauses - 1))
        sequence = key.sequence(WriteId(write_id), None if alone else statement, clause, clauses)
        if sequence is None:
            continue
        row = (write_id, 0 if alone else statement, clause)
        row += tuple(data.draw(st.integers(0, most)) for most in (sequence.max_task, sequence.max_row))
        number = sequence.key(*row[3:])
        assert -(1 << 63) <= number < 1 << 63
        assert found.setdefault(number, row) == row


def test_what_has_no_bits_gets_no_keys() -> None:
    key = SurrogateKey(2, 8)
    assert key.sequence(WriteId(4)) is None
    assert key.sequence(WriteId(3), 7) is not None
    assert key.sequence(WriteId(3), 8) is None  # 3 of the 8 bits are for statements
    assert SurrogateKey(2, 61).sequence(WriteId(1), None, 1, 2) is None
