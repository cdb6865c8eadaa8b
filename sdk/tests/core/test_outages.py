"""Histories of outages through the core: each figure against a history of which the answer is known."""

import math
from dataclasses import replace

import pytest
from recloser.core.outages import BadHistory, Episode, Figures, episodes, replayed
from recloser.core.schema import CircuitPolicy

PLAIN = replace(CircuitPolicy(), jitter=0.0)
HOUR = 3600


def history(*checks):
    return {"checks": [[at, state, None, None] for at, state in checks]}


def played(*checks, policy=PLAIN, **options):
    return replayed(history((0, "up"), *checks, (9 * HOUR, "up")), policy, **options).to_dict()


def test_an_outage_begins_with_the_first_down_and_ends_with_the_first_up():
    checks = history(
        (0, "up"), (10, "down"), (20, "down"), (30, "degraded"), (40, "up"), (50, "degraded"), (60, "down")
    )
    assert episodes(checks["checks"]) == [Episode(10.0, 40.0), Episode(60.0, math.inf)]


def test_degraded_is_an_outage_only_where_asked():
    checks = history((0, "up"), (10, "degraded"), (20, "up"))["checks"]
    assert episodes(checks) == []
    assert episodes(checks, degraded_counts=True) == [Episode(10.0, 20.0)]


def test_the_circuit_opens_probes_and_closes_at_the_first_due_probe_after_the_recovery():
    told = played((HOUR, "down"), (HOUR + 600, "up"))
    assert (told["episodes"], told["episodes_missed"], told["closings"]) == (1, 0, 1)
    assert 0 < told["opened_after_s"]["p50"] <= 30
    assert 0 < told["open_after_recovery_s"]["p50"] <= PLAIN.cooldown_max_s + 1
    assert told["closed_too_early"] == 0 and told["lockouts"] == 0
    assert 12 <= told["probes"] <= 16, "one after 30 s, then one each 45 s and the second that it takes"


def test_a_longer_wait_between_probes_keeps_it_open_for_longer():
    waits = [
        played((HOUR, "down"), (2 * HOUR, "up"), policy=replace(PLAIN, cooldown_max_s=most))["open_after_recovery_s"]
        for most in (45.0, 1800.0)
    ]
    assert waits[0]["p50"] < waits[1]["p50"]


def test_an_outage_too_short_to_be_seen_is_missed():
    told = played((HOUR, "down"), (HOUR + 5, "up"))
    assert (told["episodes_missed"], told["closings"], told["probes"]) == (1, 0, 0)
    assert told["open_after_recovery_s"]["p50"] is None and told["closed_too_early_share"] is None


def test_down_again_within_half_an_hour_of_closing_is_closed_too_early():
    early = played((HOUR, "down"), (HOUR + 600, "up"), (HOUR + 1500, "down"), (HOUR + 2000, "up"))
    late = played((HOUR, "down"), (HOUR + 600, "up"), (2 * HOUR, "down"), (2 * HOUR + 600, "up"))
    assert (early["closings"], early["closed_too_early"], early["closed_too_early_share"]) == (2, 1, 0.5)
    assert (late["closings"], late["closed_too_early"]) == (2, 0)


def test_down_again_before_a_probe_is_one_stretch_of_open():
    told = played((HOUR, "down"), (HOUR + 600, "up"), (HOUR + 602, "down"), (HOUR + 900, "up"), policy=PLAIN)
    assert told["episodes"] == 2 and told["closings"] == 1 and told["episodes_missed"] == 0
    assert told["open_after_recovery_s"]["p50"] <= PLAIN.cooldown_max_s + 1


def test_more_than_ten_minutes_open_is_one_lockout():
    assert played((HOUR, "down"), (2 * HOUR, "up"))["lockouts"] == 1


def test_a_history_that_ends_while_down_closes_nothing():
    told = replayed(history((0, "up"), (HOUR, "down"), (2 * HOUR, "down")), PLAIN).to_dict()
    assert (told["episodes"], told["closings"], told["episodes_missed"], told["lockouts"]) == (1, 0, 0, 1)


def test_the_policy_scales_the_callers_draw():
    checks = history((0, "up"), (HOUR, "down"), (3 * HOUR, "up"))
    early, late = (replayed(checks, jitter=lambda draw=draw: draw).probes for draw in (-1.0, 0.0))
    assert early > late


def test_nothing_at_all_is_no_outage():
    assert replayed({"checks": []}) == Figures()


@pytest.mark.parametrize(
    ("checks", "word"),
    [
        (None, "checks"),
        ("up", "checks"),
        ([[1]], r"checks\[0\]"),
        ([["soon", "up"]], "unix seconds"),
        ([[math.nan, "up"]], "unix seconds"),
        ([[1, "broken"]], "none of"),
        ([[2, "up"], [1, "up"]], "earlier"),
    ],
)
def test_what_is_no_history_is_named(checks, word):
    with pytest.raises(BadHistory, match=word):
        replayed({"checks": checks})
