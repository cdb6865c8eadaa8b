"""What one answer to a probe proves."""

import pytest
from recloser.core.probe import Answer, Fault, certificate_warning, ruling
from recloser.core.types import Verdict


def test_an_answer_that_meets_every_condition_is_good():
    assert ruling(Answer(200, {"status": True, "body": True})) == (Verdict.GOOD, "passed", False)


def test_a_failed_condition_is_bad_and_is_named():
    assert ruling(Answer(200, {"status": True, "latency": False})) == (Verdict.BAD, "latency", False)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 407, 422])
def test_a_refused_request_proves_nothing_and_blames_the_probe(status):
    found = ruling(Answer(status, {"status": False, "body": False}))

    assert found == (Verdict.INCONCLUSIVE, "bad_request", True)


@pytest.mark.parametrize("status", [302, 402, 408, 429, 500, 503, 504, 529])
def test_an_unexpected_answer_of_another_kind_is_bad(status):
    assert ruling(Answer(status, {"status": False})) == (Verdict.BAD, "status", False)


def test_an_expected_404_is_as_good_as_any_other_expected_status():
    assert ruling(Answer(404, {"status": True})).verdict is Verdict.GOOD


def test_a_bad_request_whose_status_was_expected_is_judged_by_its_body():
    assert ruling(Answer(400, {"status": True, "body": False})) == (Verdict.BAD, "body", False)


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_has_a_ruling_and_none_is_good(fault):
    assert ruling(Answer(fault=fault)).verdict is not Verdict.GOOD


@pytest.mark.parametrize("fault", [Fault.REFUSED_ADDRESS, Fault.SPEC, Fault.BAD_REQUEST, Fault.CREDENTIALS])
def test_our_own_refusals_blame_the_probe_not_the_dependency(fault):
    assert ruling(Answer(fault=fault))[::2] == (Verdict.INCONCLUSIVE, True)


def test_our_own_gate_blames_nobody():
    assert ruling(Answer(fault=Fault.GATE)) == (Verdict.INCONCLUSIVE, "gate", False)


@pytest.mark.parametrize(
    ("days", "warned_at", "due"),
    [(31, None, None), (30, None, 30), (29, 30, None), (14, 30, 14), (13, 14, None), (2.5, 14, 3), (-1, 3, None),
     (1, None, 3), (60, 3, None)],
)  # fmt: skip
def test_p07_each_threshold_warns_once_and_of_several_passed_only_the_last(days, warned_at, due):
    assert certificate_warning(days, warned_at) == due
