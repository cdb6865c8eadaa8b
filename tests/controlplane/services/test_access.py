"""Keys are shown once and stored as hashes; a quarantined word is recorded and not counted."""

import pytest

from controlplane import clock
from controlplane.evidence.live import live
from controlplane.models import AgentKey, AuditEntry
from controlplane.services import access
from controlplane.services.errors import Refused
from tests import factories
from tests.controlplane.evidence.batches import observe

pytestmark = pytest.mark.django_db


def _issue(cast, **more):
    asked = {"environment": cast.prod, "agent": cast.research, "label": "ci", "actor": "ada", "now": clock.now()}
    return access.issue_key(**(asked | more))


def test_an_issued_key_authenticates_and_its_secret_is_nowhere(cast):
    key, token = _issue(cast)

    assert factories.key_of(token) == key
    secret = token.split("_", 2)[2]
    assert secret not in str(AgentKey.objects.filter(pk=key.pk).values().get())
    assert secret not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    "wrong",
    ["", "rcl__", "rcl_prodresearch_" + "x" * 43, factories.RESEARCH_TOKEN + "r", "rcl_nobody_" + "r" * 43, "ü"],
)
def test_a_wrong_token_is_nobodys(cast, wrong):
    assert factories.key_of(factories.RESEARCH_TOKEN) == cast.research_key
    assert factories.key_of(wrong) is None


def test_a_revoked_key_is_nobodys_and_cannot_be_revoked_twice(cast):
    assert access.revoke_key(key=cast.research_key, actor="ada", now=clock.now())
    assert factories.key_of(factories.RESEARCH_TOKEN) is None
    assert not access.revoke_key(key=cast.research_key, actor="ada", now=clock.now())


def test_a_key_for_an_agent_of_another_environment_is_refused(cast):
    with pytest.raises(Refused) as refused:
        _issue(cast, agent=cast.staging_research)
    assert refused.value.field == "agent"


def test_what_a_quarantined_worker_reported_stops_counting(cast, consider, row_of):
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    access.quarantine_worker(worker=cast.workers[1], actor="otto", reason="broken pod", now=clock.now())

    assert not consider(cast.search_api).suspected
    entry = AuditEntry.objects.order_by("-id").first()
    assert (entry.action, entry.target, entry.reason) == ("quarantine_worker", "pod-2", "broken pod")


def test_what_a_quarantined_key_reported_stops_counting(cast, consider):
    other = factories.session(factories.worker(cast.support_key, "pod-9"))
    for session in (cast.sessions[0], other):
        observe(session, cast.search_api, failures=10)
    access.quarantine_key(key=cast.support_key, actor="otto", reason="leaked", now=clock.now())

    assert not consider(cast.search_api).suspected


def test_the_counters_are_trusted_again_once_the_quarantined_evidence_is_out_of_them(
    cast, consider, frozen_clock, monkeypatch
):
    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    access.quarantine_worker(worker=cast.workers[1], actor="otto", reason="broken pod", now=clock.now())
    consider(cast.search_api)
    frozen_clock.advance(62)
    observe(cast.sessions[2], cast.search_api, ok=1, failures=1)
    monkeypatch.setattr("controlplane.evidence.recount.of_rows", None)

    assert not consider(cast.search_api).suspected


def test_lifted_it_counts_again(cast, consider):
    access.quarantine_worker(worker=cast.workers[1], actor="otto", reason="broken pod", now=clock.now())
    assert live(cast.prod.pk, clock.now()).quarantined_workers == (cast.workers[1].pk,)

    assert access.lift_quarantine(target=cast.workers[1], actor="otto", reason="mended", now=clock.now())

    for session in cast.sessions[:2]:
        observe(session, cast.search_api, failures=10)
    assert consider(cast.search_api).suspected
    assert AuditEntry.objects.order_by("-id").first().action == "lift_quarantine"


def test_quarantine_and_lifting_are_idempotent(cast):
    order = {"worker": cast.workers[0], "actor": "otto", "reason": "x", "now": clock.now()}
    assert access.quarantine_worker(**order)
    assert not access.quarantine_worker(**order)
    lift = {"target": cast.workers[0], "actor": "otto", "reason": "y", "now": clock.now()}
    assert access.lift_quarantine(**lift)
    assert not access.lift_quarantine(**lift)


def test_a_quarantine_needs_a_reason(cast):
    with pytest.raises(Refused) as refused:
        access.quarantine_key(key=cast.research_key, actor="otto", reason=" ", now=clock.now())
    assert refused.value.field == "reason"
