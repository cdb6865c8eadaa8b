"""A bounded table of breakers."""

from dataclasses import replace

import pytest
from recloser.core.circuit import Circuit
from recloser.core.registry import Registry
from recloser.core.types import State


class Own:
    """One breaker that the table keeps."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.circuit = Circuit()

    def set(self, state: State) -> None:
        self.circuit = replace(self.circuit, state=state)


def at_rest(own: Own) -> bool:
    return own.circuit.state is State.CLOSED


@pytest.mark.case("B21")
def test_a_flood_of_keys_never_pushes_out_what_is_open():
    """B21, in words: a limit of 500, 20,000 keys in a minute, three of them open and one half open."""
    table = Registry(Own, at_rest=at_rest, limit=500)
    for number in (3, 700, 9000):
        table.of(f"open{number}").set(State.OPEN)
    table.of("tested").set(State.HALF_OPEN)
    for number in range(20_000):
        table.of(f"key{number}")
        assert len(table) <= 500
    assert all(f"open{number}" in table for number in (3, 700, 9000))
    assert "tested" in table


@pytest.mark.case("B21")
def test_a_key_that_was_let_go_and_is_met_again_starts_closed():
    table = Registry(Own, at_rest=at_rest, limit=2)
    first = table.of("a")
    table.of("b")
    table.of("c")
    assert "a" not in table
    assert table.of("a") is not first
    assert table.of("a").circuit.state is State.CLOSED


def test_the_least_recently_used_goes_first():
    table = Registry(Own, at_rest=at_rest, limit=2)
    table.of("a")
    table.of("b")
    table.of("a")
    table.of("c")
    assert [key for key, _ in table] == ["a", "c"]


def test_where_everything_is_open_a_new_key_is_answered_and_not_kept():
    table = Registry(Own, at_rest=at_rest, limit=1)
    table.of("a").set(State.OPEN)
    assert table.of("b").circuit.state is State.CLOSED
    assert ("b" in table, "a" in table) == (False, True)
