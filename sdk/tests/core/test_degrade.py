"""Ending honestly: the block, the sentence, and whether the reader was told."""

import json

import pytest
from recloser.core.degrade import Degradation, MissingTool, block_of, degradation, disclosed, disclosure
from recloser.core.policy import RunPolicy
from recloser.core.run import RunState, ToolRules
from recloser.core.types import Outcome, Scope, Signal


def lost_search() -> RunState:
    """A09, in words: web_search opened at step 4."""
    state = RunState({"web_search": ToolRules(), "lookup": ToolRules()}, RunPolicy(), started_at=0.0)
    for step in range(5):
        state.record("web_search", Outcome.RETRYABLE_ERROR, step=step, now=float(step))
    state.admit("web_search", None, 5, 5.0)
    return state


@pytest.mark.case("A09")
def test_the_block_names_tool_cause_step_replacement_and_refused_calls():
    block = degradation(lost_search(), replaced_by={"web_search": "cached_search"})
    assert block.to_dict() == {
        "children": [],
        "degraded": True,
        "ended_by": None,
        "handover": None,
        "items": [
            {
                "tool": "web_search",
                "cause": "consecutive_failures",
                "scope": "run",
                "step": 4,
                "replaced_by": "cached_search",
                "calls_refused": 1,
            }
        ],
    }


def test_a_run_without_an_opening_is_not_degraded():
    state = RunState({}, RunPolicy(), started_at=0.0)
    block = degradation(state)
    assert block.to_dict() == {"children": [], "degraded": False, "ended_by": None, "handover": None, "items": []}
    assert disclosure(block) == ""
    assert disclosed("All done.", block)


def test_a_block_is_read_back_as_it_was_told():
    below = degradation(lost_search(), replaced_by={"web_search": "cached_search"})
    block = Degradation(ended_by="no_viable_path", children=(("child", below),), handover="question")
    assert block_of(json.loads(json.dumps(block.to_dict()))) == block


@pytest.mark.parametrize(
    "given",
    [None, 3, [], {"items": 4, "children": "no"}, {"items": [None, {"tool": 3}, {"cause": "x"}]}, {"children": [[]]}],
    ids=range(6),
)
def test_what_is_no_block_says_nothing(given):
    assert not block_of(given).degraded


def test_a_block_nested_without_end_is_cut():
    given = {}
    for _ in range(5000):
        given = {"children": [given], "items": [{"tool": "t" * 10_000, "step": -1, "scope": "moon"}]}
    block = block_of(given)
    assert block.items[0].step is None
    assert len(block.items[0].tool) == 200


def test_what_an_operator_holds_open_says_so():
    state = RunState({}, RunPolicy(), started_at=0.0)
    state.withdraw(["mail"], signal=None, scope=Scope.FLEET, step=None)
    assert degradation(state).items == (MissingTool("mail", "operator", Scope.FLEET),)


def test_a_run_that_was_ended_is_degraded():
    state = RunState({}, RunPolicy(step_limit=1), started_at=0.0)
    state.reserve(None, 0.0)
    state.reserve(None, 0.0)
    block = degradation(state)
    assert (block.degraded, block.ended_by) == (True, str(Signal.STEP_LIMIT))
    assert disclosure(block) == "This task was ended before it was finished."


def test_the_sentence_names_the_tool_and_what_replaced_it():
    block = degradation(lost_search(), replaced_by={"web_search": "cached_search"})
    assert disclosure(block) == (
        "This answer was made without web_search, which was unavailable; cached_search was used instead."
    )
    assert disclosure(block, {"web_search": "We could not search."}) == "We could not search."


SEARCH = Degradation((MissingTool("web_search", "consecutive_failures", Scope.RUN, 4),))
TWO = Degradation((*SEARCH.items, MissingTool("mail", "operator", Scope.FLEET)))


@pytest.mark.parametrize(
    ("text", "block", "told"),
    [
        (f"Here it is. {disclosure(SEARCH)}", SEARCH, True),
        ("I could not use web search, so this is from memory.", SEARCH, True),
        ("web_search was unavailable.", SEARCH, True),
        ("I used web search. One thing was unavailable: the moon.", SEARCH, False),
        ("Here is the answer.", SEARCH, False),
        ("", SEARCH, False),
        ("web search was down.", TWO, False),
        ("web search was down.\nI was unable to send mail", TWO, True),
    ],
)
def test_disclosed_means_that_the_delivered_text_says_it(text, block, told):
    assert disclosed(text, block) is told


def test_a_consumer_that_shows_the_block_is_told():
    assert disclosed("Here is the answer.", SEARCH, consumer_shows_block=True)


def test_the_product_owners_own_words_count():
    words = {"web_search": "This brief rests on older sources."}
    assert disclosed("A brief. This brief rests on older sources.", SEARCH, own_words=words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I fixed the file that was missing a header. All done.", False),
        ("Here is everything, without exception.", False),
        ("I ran out of steps; the last part is not there.", True),
        ("The task was stopped before all hotels were compared.", True),
        ("I could not complete the comparison.", True),
    ],
)
def test_a_run_that_was_only_ended_is_disclosed_by_saying_so(text, said):
    assert disclosed(text, Degradation((), "step_limit")) is said
