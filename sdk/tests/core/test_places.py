"""Several places, one verdict."""

import pytest
from recloser.core.places import AskFrom, outcome, seated
from recloser.core.policy import CircuitPolicy
from recloser.core.types import Verdict

GOOD, BAD, NOTHING = Verdict.GOOD, Verdict.BAD, Verdict.INCONCLUSIVE


def policy(points=1, quorum=1):
    return CircuitPolicy(vantage_points=points, vantage_quorum=quorum)


@pytest.mark.parametrize(
    ("points", "quorum", "ask_from", "vantages", "willing", "seats", "needed"),
    [
        (1, 1, "control_plane", ["here"], 9, (("here",), 0), 1),
        (3, 2, "control_plane", ["here", "eu", "us", "asia"], 9, (("here", "eu", "us"), 0), 2),
        (3, 2, "control_plane", ["here"], 9, (("here",), 0), 1),
        (3, 3, "control_plane", ["here", "eu"], 0, (("here", "eu"), 0), 2),
        (1, 1, "agents", ["here"], 0, ((), 1), 1),
        (3, 2, "agents", ["here"], 2, ((), 2), 2),
        (1, 1, "both", ["here"], 5, (("here",), 1), 1),
        (1, 1, "both", ["here"], 0, (("here",), 0), 1),
        (3, 2, "both", ["here"], 5, (("here",), 2), 2),
        (3, 2, "both", ["here", "eu"], 5, (("here", "eu"), 1), 2),
    ],
)
def test_seats_go_to_what_is_alive_and_the_quorum_never_exceeds_them(
    points, quorum, ask_from, vantages, willing, seats, needed
):
    found = seated(policy(points, quorum), AskFrom(ask_from), vantages, willing)
    assert ((found.vantages, found.agents), found.quorum) == (seats, needed)


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [
        ([], None),
        ([GOOD], None),
        ([GOOD, GOOD], GOOD),
        ([BAD, GOOD], None),
        ([BAD, GOOD, GOOD], GOOD),
        ([BAD, BAD], BAD),
        ([NOTHING, NOTHING], NOTHING),
        ([NOTHING, BAD], BAD),
    ],
)
def test_two_of_three_decide(votes, verdict):
    assert outcome(votes, policy(9, 9), places=3, quorum=2) is verdict
