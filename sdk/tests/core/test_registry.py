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


def keep(table: Registry[Own], key: str) -> Own | None:
    return table.of(key, lambda: Own(key))


def at_rest(own: Own) -> bool:
    return own.circuit.state is State.CLOSED


@pytest.mark.case("B21")
def test_a_flood_of_keys_never_pushes_out_what_is_open():
    """B21, in words: a limit of 500, 20,000 keys in a minute, three of them open and one half open."""
    table = Registry[Own](at_rest=at_rest, limit=500)
    for number in (3, 700, 9000):
        keep(table, f"open{number}").set(State.OPEN)
    keep(table, "tested").set(State.HALF_OPEN)
    for number in range(20_000):
        keep(table, f"key{number}")
        assert len(table) <= 500
    assert all(f"open{number}" in table for number in (3, 700, 9000))
    assert "tested" in table


@pytest.mark.case("B21")
def test_a_key_that_was_let_go_and_is_met_again_starts_closed():
    table = Registry[Own](at_rest=at_rest, limit=2)
    first = keep(table, "a")
    keep(table, "b")
    keep(table, "c")
    assert "a" not in table
    assert keep(table, "a") is not first
    assert keep(table, "a").circuit.state is State.CLOSED


def test_the_least_recently_used_goes_first():
    table = Registry[Own](at_rest=at_rest, limit=2)
    keep(table, "a")
    keep(table, "b")
    keep(table, "a")
    keep(table, "c")
    assert [key for key, _ in table] == ["a", "c"]


def test_where_everything_is_open_there_is_no_room_for_a_new_key():
    table = Registry[Own](at_rest=at_rest, limit=1)
    keep(table, "a").set(State.OPEN)
    assert keep(table, "b") is None
    assert ("b" in table, "a" in table) == (False, True)
