"""Probes: saved, tried out, taken by one Celery worker and no other."""

import json
import threading
import time

import pytest

from controlplane import background, secrets
from controlplane.models import AuditEntry, Circuit, Probe, ProbeRound, ProbeTest
from controlplane.services import circuits, probes
from controlplane.services.errors import Refused
from tests.factories import NOON
from tests.workers.processes import until
from tests.workers.stage import staged
from tests.workers.vendor import hang
from workers.tasks.probes import run_rounds, run_tests

pytestmark = pytest.mark.django_db

SECRET = {"Authorization": "Bearer never-to-be-seen-again"}


@pytest.fixture
def stage(frozen_clock):
    return staged()


def save(stage, url, secret_headers=None, operation="web_search", **spec):
    return probes.save_probe(
        dependency=stage.search, operation=operation, spec={"url": url, **spec}, secret_headers=secret_headers,
        actor="ada", now=NOON,
    )  # fmt: skip


def granted(now=NOON):
    return [str(each.pk) for each in circuits.claim_rounds(now=now, limit=10)]


def test_a_probe_of_a_healthy_vendor_closes_and_its_round_tells_all(stage, vendor):
    save(stage, f"{vendor.url}/ok", SECRET, body_condition={"kind": "contains", "value": "results"})
    stage.open()
    run_rounds(granted())

    kept = ProbeRound.objects.get()
    assert stage.circuit.state == "closed"
    assert (kept.verdict, kept.applied, kept.operation) == ("good", True, "web_search")
    assert kept.asked["headers"] == {"Authorization": secrets.MASK}
    assert kept.answered["status"] == 200
    assert [each["held"] for each in kept.answered["conditions"]] == [True, True]
    assert kept.due_at <= kept.granted_at <= kept.connected_at
    assert vendor.seen[0].headers["authorization"] == SECRET["Authorization"]


def test_a_failing_vendor_keeps_it_open_and_its_wait_is_heeded(stage, vendor):
    save(stage, f"{vendor.url}/down")
    stage.open()
    run_rounds(granted())

    circuit = stage.circuit
    assert circuit.state == "open"
    assert (circuit.due_at - NOON).total_seconds() == 7
    assert ProbeRound.objects.get().verdict == "bad"


@pytest.mark.case("B11")
def test_b11_a_probe_answered_bad_request_proves_nothing_and_is_flagged(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/bad")
    stage.open()
    run_rounds(granted())

    kept = ProbeRound.objects.get()
    assert (kept.verdict, kept.answered["misconfigured"]) == ("inconclusive", True)
    assert stage.circuit.state == "open"
    vendor.routes["/bad"] = vendor.routes["/ok"]
    run_rounds(granted(frozen_clock.advance(0.3)))
    assert stage.circuit.state == "closed"


def test_a_lease_outlasts_the_probes_own_time_limit(stage, vendor):
    save(stage, f"{vendor.url}/ok", time_limit_s=30)
    stage.open()
    granted()

    kept = ProbeRound.objects.get()
    assert (kept.lease_expires_at - kept.granted_at).total_seconds() == 32


def test_a_probe_that_we_began_too_late_says_nothing_against_the_vendor(stage, vendor, frozen_clock):
    vendor.routes["/slow"] = hang
    save(stage, f"{vendor.url}/slow", time_limit_s=5)
    stage.open()
    ids = granted()
    lease = ProbeRound.objects.get().lease_expires_at - NOON
    frozen_clock.advance(lease.total_seconds() - 0.8)
    run_rounds(ids)

    kept = ProbeRound.objects.get()
    assert (kept.verdict, kept.answered["cause"]) == ("inconclusive", "gate")


def test_a_time_limit_that_a_busy_process_notices_late_says_nothing_against_the_vendor(stage, vendor):
    vendor.routes["/slow"] = hang
    save(stage, f"{vendor.url}/slow", time_limit_s=0.5)
    stage.open()
    ids = granted()
    busy = threading.Thread(target=lambda: until(lambda: vendor.seen) and background.submit(_hog()).result())
    busy.start()
    run_rounds(ids)
    busy.join()

    kept = ProbeRound.objects.get()
    assert (kept.verdict, kept.answered["cause"]) == ("inconclusive", "gate")
    assert "too busy" in kept.answered["detail"]


async def _hog():
    """Work that leaves the event loop no time."""
    ends = time.monotonic() + 1.5
    while time.monotonic() < ends:
        pass


@pytest.mark.case("P06")
def test_p06_a_probe_of_another_operation_does_not_close(stage, vendor):
    save(stage, f"{vendor.url}/ok", operation="list")
    stage.open()
    row = stage.circuit
    Circuit.objects.filter(pk=row.pk).update(core=row.core | {"operation": "web_search"})
    run_rounds(granted())

    assert stage.circuit.state == "open"
    assert "web_search" in ProbeRound.objects.get().answered["reason"]


def test_a_round_delivered_twice_asks_once_and_counts_once(stage, vendor):
    save(stage, f"{vendor.url}/down")
    stage.open()
    ids = granted()
    run_rounds(ids)
    after_first = stage.circuit.core
    run_rounds(ids)

    assert vendor.count("/down") == 1
    assert stage.circuit.core == after_first


def test_a_round_delivered_after_its_lease_asks_nobody(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/ok")
    stage.open()
    ids = granted()
    frozen_clock.advance(8)
    run_rounds(ids)

    assert vendor.seen == []
    assert stage.circuit.state != "closed"


@pytest.mark.case("P05")
def test_p05_a_result_that_comes_after_its_lease_says_nothing(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/ok")
    stage.open()
    [lost] = granted()
    frozen_clock.advance(8)
    circuits.sweep_due(now=frozen_clock.advance(0), limit=10)

    applied = circuits.finish_round(round_id=lost, verdict="good", operation="web_search", now=frozen_clock.advance(1))

    assert applied is False
    assert stage.circuit.state == "open"


@pytest.mark.case("B15")
def test_b15_a_probe_in_flight_when_somebody_forces_close_has_no_say(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/down")
    stage.open()
    ids = granted()
    circuits.force_close(
        dependency_id=stage.search.pk, actor="otto", reason="I know better", now=frozen_clock.advance(1)
    )
    run_rounds(ids)

    assert (stage.circuit.state, stage.circuit.cause) == ("closed", "operator")
    assert ProbeRound.objects.get().applied is False


def test_a_batch_is_asked_side_by_side_and_one_that_hangs_delays_no_other(stage, vendor):
    save(stage, f"{vendor.url}/hang", time_limit_s=0.7)
    for dependency in (stage.cast.crm_db, stage.cast.payments):
        probes.save_probe(
            dependency=dependency, operation="any", spec={"url": f"{vendor.url}/ok"}, actor="ada", now=NOON
        )
        stage.open(dependency)
    stage.open()
    run_rounds(granted())

    verdicts = dict(ProbeRound.objects.values_list("circuit__dependency__slug", "verdict"))
    assert verdicts == {"search-api": "bad", "crm-db": "good", "payments": "good"}


def test_a_probe_that_was_removed_meanwhile_is_inconclusive(stage, vendor):
    save(stage, f"{vendor.url}/ok")
    stage.open()
    ids = granted()
    probes.remove_probe(dependency=stage.search, actor="ada")
    run_rounds(ids)

    assert ProbeRound.objects.get().answered["detail"] == "the probe was removed"
    assert stage.circuit.state == "open"


def test_a_target_that_leads_inside_by_now_is_inconclusive_not_down(stage, vendor):
    save(stage, f"{vendor.url}/ok")
    from controlplane.services import egress

    egress.close_network(network="127.0.0.0/8", actor="ada")
    stage.open()
    run_rounds(granted())

    kept = ProbeRound.objects.get()
    assert (kept.verdict, kept.answered["cause"]) == ("inconclusive", "refused_address")
    assert vendor.seen == []


def test_secrets_are_stored_sealed_and_shown_to_nobody(stage, vendor):
    probe = save(stage, f"{vendor.url}/echo", SECRET)
    stage.open()
    run_rounds(granted())

    kept = ProbeRound.objects.get()
    said = json.dumps([probe.spec, probe.secrets, probes.shown(probe), kept.asked, kept.answered], default=str)
    audited = list(AuditEntry.objects.values("actor", "action", "target", "reason", "detail"))
    assert vendor.seen[0].headers["authorization"] == SECRET["Authorization"]
    assert "never-to-be-seen" not in said + json.dumps(audited)
    assert probes.shown(probe)["secret_headers"] == {"Authorization": secrets.MASK}


def test_stored_secrets_stay_while_the_address_does_and_never_follow_it_elsewhere(stage, vendor):
    save(stage, f"{vendor.url}/ok", SECRET)
    kept = save(stage, f"{vendor.url}/other")
    assert secrets.unseal_values(kept.secrets) == SECRET
    kept = save(stage, f"{vendor.url}/other", {"Authorization": None, "X-More": "m"})
    assert secrets.unseal_values(kept.secrets) == {**SECRET, "X-More": "m"}

    with pytest.raises(Refused) as refusal:
        save(stage, f"http://localhost:{vendor.port}/ok")

    assert (refusal.value.code, refusal.value.field) == ("secrets_needed", "secret_headers")
    assert Probe.objects.get().spec["url"].endswith("/other")


def test_a_try_out_shows_request_answer_and_each_condition_and_touches_no_circuit(stage, vendor):
    spec = {"url": f"{vendor.url}/ok", "body_condition": {"kind": "contains", "value": "absent"}}
    test = probes.test_now(dependency=stage.search, spec=spec, secret_headers=SECRET, actor="petra", now=NOON)
    before = stage.circuit.generation

    ids = [str(each) for each in probes.claim_tests(now=NOON, limit=10)]
    assert probes.claim_tests(now=NOON, limit=10) == []
    run_tests(ids)

    test.refresh_from_db()
    assert test.result["verdict"] == "bad"
    assert {each["name"]: each["held"] for each in test.result["answered"]["conditions"]} == {
        "status": True,
        "body": False,
    }
    assert test.result["asked"]["headers"] == {"Authorization": secrets.MASK}
    assert test.secrets == ""
    assert stage.circuit.generation == before
    assert AuditEntry.objects.filter(actor="petra", action="test_probe").exists()


@pytest.mark.case("P03")
def test_p03_try_out_and_saving_refuse_inside_addresses_in_the_same_words(stage):
    said = set()
    for url in ("http://169.254.169.254/", "http://[::1]:8000/", "http://10.1.2.3/", "http://2852039166/"):
        for attempt in (save, _try_out):
            with pytest.raises(Refused) as refusal:
                attempt(stage, url)
            said.add((str(refusal.value), refusal.value.field))

    assert len(said) == 1
    assert not Probe.objects.exists()
    assert not ProbeTest.objects.exists()


def _try_out(stage, url):
    probes.test_now(dependency=stage.search, spec={"url": url}, actor="petra", now=NOON)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": "ftp://example.com/"}, "url"),
        ({"url": "http://user:pass@example.com/"}, "url"),
        ({"url": "http://exa mple.com/"}, "url"),
        ({"url": "http://example.com:99999/"}, "url"),
        ({"url": "http://[::1/"}, "url"),
        ({"url": "http://no-such-host.invalid/"}, "url"),
        ({"url": 7}, "url"),
        ({"method": "DELETE"}, "method"),
        ({"headers": {"X\r\nHost": "evil"}}, "headers"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "headers"),
        ({"headers": {"Host": "evil"}}, "headers"),
        ({"headers": {"Authorization": "Bearer x"}}, "headers"),
        ({"headers": ["x"]}, "headers"),
        ({"body": "x"}, "body"),
        ({"expected_status": "200-"}, "expected_status"),
        ({"expected_status": "700"}, "expected_status"),
        ({"expected_status": "299-200"}, "expected_status"),
        ({"body_condition": {"kind": "regex", "value": "(a+)+$"}}, "body_condition"),
        ({"body_condition": {"kind": "json_equals", "path": "__class__", "value": 1}}, "body_condition"),
        ({"body_condition": {"kind": "json_equals", "path": "$.a", "value": [1]}}, "body_condition"),
        ({"body_condition": {"kind": "contains", "value": ""}}, "body_condition"),
        ({"latency_ms": 0}, "latency_ms"),
        ({"time_limit_s": float("nan")}, "time_limit_s"),
        ({"time_limit_s": 3600}, "time_limit_s"),
        ({"time_limit_s": True}, "time_limit_s"),
        ({"redirects": "sometimes"}, "redirects"),
        ({"max_redirects": 1000}, "max_redirects"),
        ({"metod": "GET"}, "metod"),
    ],
)
def test_every_field_that_cannot_be_used_is_refused_by_its_name(stage, vendor, change, field):
    with pytest.raises(Refused) as refusal:
        probes.save_probe(
            dependency=stage.search, operation="x", spec={"url": f"{vendor.url}/ok", **change}, actor="ada", now=NOON
        )

    assert refusal.value.field == field
    assert refusal.value.mend
    assert not Probe.objects.exists()


def test_an_operation_must_be_named(stage, vendor):
    with pytest.raises(Refused) as refusal:
        save(stage, f"{vendor.url}/ok", operation=" ")

    assert refusal.value.field == "operation"


def test_without_leave_loopback_is_out_of_reach(stage, vendor):
    from controlplane.services import egress

    egress.close_network(network="127.0.0.0/8", actor="ada")
    with pytest.raises(Refused, match="may reach"):
        save(stage, f"{vendor.url}/ok")


def test_old_rounds_and_try_outs_are_dropped(stage, vendor, frozen_clock):
    save(stage, f"{vendor.url}/ok")
    stage.open()
    granted()
    _try_out(stage, f"{vendor.url}/ok")

    assert probes.prune_probes(now=frozen_clock.advance(60)) == 0
    assert probes.prune_probes(now=frozen_clock.advance(91 * 86_400)) == 2
