"""Which calls are the same call, and that nothing in an argument can hurt."""

import dataclasses
import datetime
import enum
import json
import math
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recloser.core.fingerprint import ShortKeys, call_key, fingerprint, result_fingerprint, result_key, told

SALT = b"run 1"


def of(args: object, **more: object) -> str | None:
    return fingerprint("search", args, salt=SALT, **more)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Query:
    words: str


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"q": " storm "}, {"q": "storm"}),
        ({"n": 1}, {"n": 1.0}),
        ({"q": ["a", "b"]}, {"q": ("a", "b")}),
        ('{"q": "storm"}', {"q": "storm"}),
        ({"q": {"b", "a"}}, {"q": {"a", "b"}}),
        ({"c": Colour.RED}, {"c": "red"}),
        ({"q": Text("storm")}, {"q": "storm"}),
        ({"n": math.nan}, {"n": float("nan")}),
        ({"q": Query("x")}, {"q": Query("x")}),
        ({"d": datetime.date(2026, 1, 2)}, {"d": datetime.date(2026, 1, 2)}),
        ({"d": Decimal("1.50"), "u": uuid.UUID(int=5)}, {"d": Decimal("1.50"), "u": uuid.UUID(int=5)}),
        ({"b": b"raw"}, {"b": bytearray(b"raw")}),
    ],
)
def test_the_same_call_in_disguise_is_the_same_call(one, other):
    assert of(one) is not None
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "a"}, {"q": "b"}),
        ({"q": "A"}, {"q": "a"}),
        ({"q": 1}, {"q": "1"}),
        ({"q": True}, {"q": 1}),
        ({"q": None}, {}),
        ({"q": ["a", "b"]}, {"q": ["b", "a"]}),
        ({"q": ["ab", "c"]}, {"q": ["a", "bc"]}),
        ({"q": {"a": {}}}, {"q": {"a": []}}),
        ({"q": [[1], 2]}, {"q": [[1, 2]]}),
        ("label", "other label"),
        ({"n": 2**5000}, {"n": 2**5000 + 1}),
        ({1: "x"}, {"1": "x"}),
        ("[not json", "[not json either"),
    ],
)
def test_different_calls_differ(one, other):
    assert of(one) is not None
    assert of(one) != of(other)


def test_another_tool_or_another_run_has_other_fingerprints():
    assert fingerprint("a", {}, salt=SALT) != fingerprint("b", {}, salt=SALT)
    assert fingerprint("a", {}, salt=b"run 1") != fingerprint("a", {}, salt=b"run 2")


def test_ignored_arguments_do_not_make_a_call_new():
    ignored = {"ignored": ("note",)}
    assert of({"cmd": "ls", "note": "first"}, **ignored) == of({"cmd": "ls", "note": "again"}, **ignored)
    assert of({"q": {"note": 1}}, **ignored) != of({"q": {"note": 2}}, **ignored)


def test_case_is_folded_only_where_it_has_no_meaning():
    folded = {"casefold": ("email",)}
    assert of({"email": "A@B.c"}, **folded) == of({"email": "a@b.C"}, **folded)
    assert of({"email": ["A@B.c"]}, **folded) == of({"email": ["a@b.C"]}, **folded)
    assert of({"path": "/A"}, **folded) != of({"path": "/a"}, **folded)


def test_a_circle_within_the_arguments_is_survived_and_compared():
    one: dict[str, object] = {"q": 1}
    one["self"] = one
    other: dict[str, object] = {"q": 1}
    other["self"] = other
    assert of(one) == of(other) is not None


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("boo")

    __str__ = __repr__


class HostileMap(dict):
    def __iter__(self):
        raise KeyError("boo")


@pytest.mark.parametrize(
    "args",
    [
        {"q": object()},
        {"q": Hostile()},
        {"q": (number for number in range(3))},
        {Hostile(): 1},
        {"q": HostileMap(a=1)},
        {"q": [[]] * 200_000},
        {"q": Query},
        {"q": lambda: 1},
    ],
)
def test_what_cannot_be_compared_has_no_fingerprint_and_raises_nothing(args):
    assert of(args) is None


def test_nesting_without_end_is_cut():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert of({"q": deep}) is None
    assert of("[" * 100_000) is not None


def test_a_megabyte_is_no_problem():
    assert of({"q": "x" * 1_000_000}) != of({"q": "x" * 999_999 + "y"})


def test_lone_surrogates_are_survived():
    assert of({"q": "\ud800"}) is not None


def test_results_are_compared_the_same_way():
    assert result_fingerprint({"b": 1, "a": 2}, salt=SALT) == result_fingerprint({"a": 2, "b": 1}, salt=SALT)
    assert result_fingerprint("[1]", salt=SALT) != result_fingerprint([1], salt=SALT)
    assert result_fingerprint(iter([]), salt=SALT) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=5))
def test_any_arguments_have_one_fingerprint_whatever_their_order(args):
    assert of(args) == of(dict(reversed(args.items()))) is not None


NAMES = st.sampled_from(["a", "b", "a\n:", "a:b", "", "A"])
VALUES = st.one_of(
    st.sampled_from(["", "x", " x ", "x\n:b\nx", "T", "1", "~", "y" * 199 + " ", "y" * 201, "\ud800", "b\n=\n1"]),
    st.sampled_from([0, 1, -1, True, False, None, 1.0, 0.5, -0.0, float("inf"), 2**63, -(2**64), 1e300, 10**300]),
    st.lists(st.integers(0, 2), max_size=2),
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(ARGUMENTS, ARGUMENTS)
def test_a_key_tells_apart_what_a_fingerprint_tells_apart(one, other):
    def same(way):
        return way("tool", one, salt=SALT) == way("tool", other, salt=SALT)

    assert same(call_key) == same(fingerprint)
    assert call_key("tool", json.dumps(one), salt=SALT) is not None
    keys = [told("tool", call_key("tool", args, salt=SALT), salt=SALT) for args in (one, other)]
    assert all(len(key) == 32 for key in keys) and (keys[0] == keys[1]) == same(fingerprint)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANY_JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
CALLS = st.dictionaries(st.text(max_size=8), ANY_JSON, max_size=10)


@given(st.lists(ARGUMENTS | CALLS, min_size=2, max_size=6))
def test_a_remembered_order_of_names_changes_no_key(calls):
    """One memory for all calls of a tool, whatever their names, gives each the text that a new memory gives it."""
    remembered = ShortKeys()
    texts = [remembered.of(args) for args in calls]
    assert texts == [ShortKeys().of(args) for args in calls]
    kept = [(text, fingerprint("t", args, salt=SALT)) for text, args in zip(texts, calls, strict=True) if text]
    assert all((one[0] == other[0]) == (one[1] == other[1]) for one in kept for other in kept)


@given(CALLS)
def test_a_call_written_in_another_order_with_blanks_about_has_the_same_key(args):
    other = {name: f"  {value}\n" if type(value) is str else value for name, value in reversed(args.items())}
    assert call_key("t", args, salt=SALT) == call_key("t", other, salt=SALT) is not None


@pytest.mark.parametrize(
    "args", [{"a" * 201: 1}, {f"a{n}": n for n in range(9)}, {"a": "x" * 201}, {"a": 10**17}, {1: 2}, {"a": [1]}]
)
def test_what_is_not_short_has_no_short_key_and_leaves_the_memory_usable(args):
    keys = ShortKeys()
    before = keys.of({"a": 1})
    assert keys.of(args) is None
    assert keys.of({"a": 1.0}) == before == ShortKeys().of({"a": 1})


def test_the_order_of_the_arguments_makes_no_other_call():
    assert call_key("t", {"a": 1, "b": "x"}, salt=SALT) == call_key("t", '{"b": " x", "a": 1.0}', salt=SALT)
    assert call_key("t", {"a": 1}, salt=SALT, ignored=("b",)) == call_key(
        "t", {"a": 1, "b": 2}, salt=SALT, ignored=("b",)
    )
    assert call_key("t", {"a": "X"}, salt=SALT, casefold=("a",)) == call_key(
        "t", {"a": "x"}, salt=SALT, casefold=("a",)
    )
    assert call_key("t", {"a": "X"}, salt=SALT) != call_key("t", {"a": "x"}, salt=SALT)


@pytest.mark.parametrize("args", [{"n": float("nan")}, {1: 2}, {"a": object()}, {1: 2, "a": 3}, None, 7, "words", b"x"])
def test_what_is_not_flat_goes_by_its_fingerprint(args):
    assert call_key("t", args, salt=SALT) == fingerprint("t", args, salt=SALT)


def test_what_is_told_of_a_short_call_cannot_be_guessed_without_the_salt():
    key = call_key("t", {"a": "secret"}, salt=SALT)
    assert "secret" not in told("t", key, salt=SALT)
    assert told("t", key, salt=SALT) != told("t", key, salt=b"another" * 2) != told("u", key, salt=b"another" * 2)
    assert told("", result_key(" found ", SALT), salt=SALT) == told("", result_key("found", SALT), salt=SALT)
    assert told("t", None, salt=SALT) is None
