"""What a recorded run turned out to be, and what the breaker would have done to it."""

import random
from dataclasses import replace

import pytest
from recloser.core.decision import ToolRules
from recloser.core.hindsight import Hindsight, Step, is_looping
from recloser.core.policy import RunPolicy, resolve_run
from recloser.core.types import Action, Delivery, Outcome, SideEffectClass, Signal

DEFAULT = resolve_run([]).policy


def steps(text: str) -> list[Step]:
    """`a1 b2`: the call a with the result 1, then b with 2. A question mark cannot be compared."""
    return [
        Step(call, Outcome.OK, args=call, result=None if result == "?" else result) for call, result in text.split()
    ]


def failing(tool: str, times: int, outcome: Outcome = Outcome.RETRYABLE_ERROR) -> list[Step]:
    return [Step(tool, outcome, args=f"{tool}{number}", result=f"{number}") for number in range(times)]


def verdict(played: list[Step], policy: RunPolicy = DEFAULT):
    return Hindsight(policy, lambda tool: ToolRules(policy, (tool,))).verdict(played)


@pytest.mark.parametrize(
    ("told", "looping"),
    [
        ("a1 b1 a1 b1", True),
        ("x1 a1 b1 c1 a1 b1 c1 y1", True),
        ("a1 a1 b1 a1 a1 b1", True),
        ("a1 b1 a2 b1 a1 b1", False),
        ("a1 b1 a1 c1 b1", False),
        ("a1 a1 a1 a1", False),
        ("a1 a1 a1 a1 a1", True),
        ("a1 b1 a1 c1 a1 d1 a1 e1 a1", True),
        ("a1 a1 a1 a2 a1 a1", False),
        ("a? b? a? b? a? b?", False),
        ("", False),
    ],
)
def test_a_loop_is_an_exact_cycle_or_five_identical_unchanged_calls(told, looping):
    assert is_looping(steps(told)) is looping


def by_trying_all(played: list[Step]) -> bool:
    pairs = [(step.identity, step.result) for step in played]
    squares = any(
        pairs[at : at + far] == pairs[at + far : at + 2 * far] and len(set(pairs[at : at + far])) > 1
        for far in range(2, len(pairs))
        for at in range(len(pairs) - 2 * far + 1)
    )
    last, count, most = {}, {}, 0
    for call, result in pairs:
        count[call] = count[call] + 1 if last.get(call) == result else 1
        last[call] = result
        most = max(most, count[call])
    return squares or most >= 5


def test_loops_are_found_wherever_they_are():
    draw, found = random.Random(4), 0
    for _ in range(3000):
        played = steps(" ".join(draw.choice("abcd") + draw.choice("112") for _ in range(draw.randrange(14))))
        assert is_looping(played) is by_trying_all(played)
        found += is_looping(played)
    assert 200 < found < 2800


def test_a_blocked_call_catches_a_run_and_does_not_stop_it():
    seen = verdict(steps("a1 " * 6))
    assert ([trip.signal for trip in seen.trips], seen.blocked) == ([Signal.IDENTICAL_CALLS], 3)
    assert (seen.caught, seen.stopped) == (True, False)


def test_a_withdrawn_tool_stops_a_run_and_its_later_calls_are_refused():
    seen = verdict(failing("search", 5))
    assert (seen.stopped, seen.lost, seen.refused) == (True, ("search",), 2)
    assert seen.trips[0].signal is Signal.CONSECUTIVE_FAILURES


def test_a_run_that_is_ended_goes_no_further_and_says_so_once():
    policy = replace(DEFAULT, identical_calls_action=Action.END_RUN)
    seen = verdict(steps("a1 a1 a1 b1 c1 d1 e1"), policy)
    assert (seen.stopped, seen.ended_by, len(seen.trips)) == (True, Signal.IDENTICAL_CALLS, 1)
    limited = verdict(steps("a1 b1 c1 d1"), replace(DEFAULT, step_limit=2))
    assert (limited.ended_by, len(limited.trips)) == (Signal.STEP_LIMIT, 1)


def test_tokens_and_time_are_those_of_the_record():
    played = [replace(step, tokens=40, duration_s=3.0) for step in steps("a1 b1 c1")]
    assert verdict(played, replace(DEFAULT, token_budget=100)).ended_by is Signal.TOKEN_BUDGET
    assert verdict(played, replace(DEFAULT, wall_clock_s=5.0)).ended_by is Signal.WALL_CLOCK
    assert not verdict(played, replace(DEFAULT, token_budget=120, wall_clock_s=6.0)).stopped


def test_what_is_only_watched_neither_stops_nor_catches():
    seen = verdict(failing("search", 9), replace(DEFAULT, delivery=Delivery.OBSERVE))
    assert (seen.caught, seen.stopped, bool(seen.watched)) == (False, False, True)


def test_a_side_effect_repeated_is_a_block_and_a_trip():
    policy = resolve_run([], side_effect_class=SideEffectClass.SIDE_EFFECT).policy
    seen = verdict(steps("p1 p2 p3"), policy)
    assert (seen.blocked, len(seen.trips), seen.caught, seen.stopped) == (2, 1, True, False)
