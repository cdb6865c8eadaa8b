"""Probes of every kind, from saving to verdict: the guard at the form, classes, costs, certificates."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from controlplane import secrets
from controlplane.models import AlertCause, AlertDelivery, Probe, ProbeRound, ProbeSpend, ProbeTest, Tool
from controlplane.services import alert_causes, certificates, circuits, probes
from controlplane.services.errors import Refused
from tests.factories import NOON
from tests.workers.kinds import KINDS, asks
from tests.workers.stage import staged
from tests.workers.vendor import reply
from workers.tasks.probes import run_rounds, run_tests

pytestmark = pytest.mark.django_db
INSIDE = ["169.254.169.254", "10.1.2.3", "2852039166", "::1", "::ffff:169.254.169.254"]
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def stage(frozen_clock):
    return staged()


def save(stage, kind, spec, **more):
    return probes.save_probe(
        dependency=stage.search, operation="web_search", kind=kind, spec=spec, actor="ada", now=NOON, **more
    )


def try_out(stage, kind, spec, **more):
    return probes.test_now(dependency=stage.search, kind=kind, spec=spec, actor="ada", now=NOON, **more)


def granted(now=NOON):
    return [str(each.pk) for each in circuits.claim_rounds(now=now, limit=10)]


@pytest.mark.case("P03")
@each_kind
def test_p03_saving_and_trying_out_refuse_every_inside_address_in_the_same_words(stage, kind):
    said = set()
    for host in INSIDE:
        wrapped = f"[{host}]" if ":" in host and kind in ("http", "steps", "mcp", "llm") else host
        for act in (save, try_out):
            with pytest.raises(Refused) as refusal:
                act(stage, kind, asks(kind, 8000, host=wrapped))
            said.add((refusal.value.code, refusal.value.message, refusal.value.mend, refusal.value.field))
    if kind != "dns":
        assert len(said) == 1
    assert {each[0] for each in said} == {"refused_address"}
    assert not Probe.objects.exists() and not ProbeTest.objects.exists()


@each_kind
def test_a_host_that_does_not_resolve_is_told_at_the_form(stage, kind):
    with pytest.raises(Refused) as refusal:
        save(stage, kind, asks(kind, 8000, host="no-such-host.invalid"))

    assert refusal.value.code == "unresolvable"
    assert refusal.value.field in asks(kind, 8000)


def test_a_kind_that_does_not_exist_is_named(stage):
    with pytest.raises(Refused) as refusal:
        save(stage, "telnet", {})

    assert refusal.value.field == "kind" and "tcp" in refusal.value.mend


def test_each_kind_takes_its_own_secrets_and_no_others(stage, vendor):
    tcp = {"host": "127.0.0.1", "port": vendor.port}
    for kind, spec, more, field in [
        ("http", {"url": vendor.url}, {"secret_values": {"password": "x"}}, "secret_values"),
        ("redis", tcp, {"secret_headers": {"A": "x"}}, "secret_headers"),
        ("redis", tcp, {"secret_values": {"api_key": "x"}}, "secret_values"),
        ("tcp", tcp, {"secret_values": {"password": "x"}}, "secret_values"),
    ]:
        with pytest.raises(Refused) as refusal:
            save(stage, kind, spec, **more)
        assert refusal.value.field == field
    kept = save(stage, "redis", tcp, secret_values={"password": "s3cret-word"})
    assert secrets.unseal_values(kept.secrets) == {"password": "s3cret-word"}
    assert probes.shown(kept)["secret_values"] == {"password": secrets.MASK}


def test_stored_secrets_follow_neither_to_another_kind_nor_out_of_tls(stage, vendor):
    spec = {"host": "127.0.0.1", "port": vendor.port}
    save(stage, "redis", {**spec, "tls": True}, secret_values={"password": "s3cret-word"})
    for kind, changed in [("redis", spec), ("postgres", {**spec, "database": "d", "user": "u"})]:
        with pytest.raises(Refused) as refusal:
            save(stage, kind, changed, secret_values={"password": None})
        assert refusal.value.code == "secrets_needed"


CALL = {"url": "http://127.0.0.1:9/mcp", "call_tool": "web_search"}


@pytest.mark.parametrize(
    ("side_effect", "confirmed", "allowed"),
    [("read_only", True, True), ("read_only", False, False), ("side_effect", True, False), ("unknown", False, False)],
)
def test_a_probe_calls_a_tool_only_if_its_class_is_confirmed_as_read_only(stage, side_effect, confirmed, allowed):
    Tool.objects.filter(name="web_search").update(side_effect=side_effect, class_confirmed=confirmed)
    if allowed:
        assert save(stage, "mcp", CALL).spec["call_tool"] == "web_search"
        return
    with pytest.raises(Refused) as refusal:
        save(stage, "mcp", CALL)
    assert (refusal.value.code, refusal.value.field) == ("not_read_only", "call_tool")


def test_a_tool_that_nobody_knows_is_not_called(stage):
    with pytest.raises(Refused) as refusal:
        save(stage, "mcp", {**CALL, "call_tool": "drop_everything"})

    assert refusal.value.field == "call_tool"


def test_a_class_that_changes_after_saving_stops_the_call(stage, vendor):
    Tool.objects.filter(name="web_search").update(side_effect="read_only", class_confirmed=True)
    save(stage, "mcp", {**CALL, "url": f"{vendor.url}/mcp"})
    Tool.objects.filter(name="web_search").update(side_effect="destructive")
    stage.open()
    run_rounds(granted())

    kept = ProbeRound.objects.get()
    assert (kept.verdict, kept.answered["cause"]) == ("inconclusive", "spec")
    assert vendor.seen == []


PAID = {
    "ask": "completion", "model": "small-1", "cost_per_probe_usd": 0.004, "daily_cap_usd": 0.01,
    "provider": "compatible",
}  # fmt: skip


def test_a_completion_is_bought_only_where_the_policy_says_so(stage, vendor):
    with pytest.raises(Refused) as refusal:
        save(stage, "llm", {**PAID, "url": vendor.url})
    assert (refusal.value.code, refusal.value.field) == ("paid_probe", "ask")

    stage.policy(probe_paid=True)
    assert save(stage, "llm", {**PAID, "url": vendor.url}).kind == "llm"


def test_the_day_s_cap_holds_over_rounds_and_try_outs_and_begins_anew(stage, vendor, frozen_clock):
    vendor.routes["/chat/completions"] = reply(200, '{"choices": [{}]}')
    stage.policy(probe_paid=True)

    def ask_once(now):
        test = try_out(stage, "llm", {**PAID, "url": vendor.url})
        ProbeTest.objects.filter(pk=test.pk).update(asked_at=now)
        run_tests([str(test.pk)])
        return ProbeTest.objects.get(pk=test.pk).result

    results = [ask_once(NOON) for _ in range(3)]
    assert [each["verdict"] for each in results] == ["good", "good", "inconclusive"]
    assert results[2]["answered"]["cause"] == "gate" and "cap" in results[2]["answered"]["detail"]
    assert vendor.count("/chat/completions") == 2
    spent = ProbeSpend.objects.get()
    assert (spent.spent_usd, spent.asked) == (Decimal("0.008"), 2)
    assert ask_once(frozen_clock.advance(86_400))["verdict"] == "good"


def test_a_listing_costs_nothing(stage, vendor):
    vendor.routes["/models"] = reply(200, '{"data": []}')
    test = try_out(stage, "llm", {"url": vendor.url})
    run_tests([str(test.pk)])

    assert ProbeTest.objects.get().result["verdict"] == "good"
    assert not ProbeSpend.objects.exists()


@pytest.mark.case("P07")
def test_p07_three_warnings_until_it_expires_and_none_after_renewal(stage, vendor):
    save(stage, "http", {"url": vendor.url})
    stage.pager("http://127.0.0.1:9/hook")
    until, told = NOON + timedelta(days=31), []

    def look(now, until=until):
        return certificates.note_certificate(dependency_id=stage.search.pk, until=until, now=now)

    for half_day in range(2 * 29 + 1):
        told.append(look(NOON + timedelta(hours=12 * half_day)))
    assert [each for each in told if each] == [30, 14, 3]
    assert AlertCause.objects.filter(kind="certificate").count() == 3
    sent = AlertDelivery.objects.filter(event="certificate")
    assert sent.count() == 3
    assert "about to expire: search-api" in sent[0].body["title"]

    renewed = NOON + timedelta(days=120)
    assert [look(NOON + timedelta(days=30 + day), renewed) for day in range(3)] == [None] * 3
    assert sent.count() == 3


def test_a_warned_certificate_is_one_running_cause_until_a_probe_meets_a_renewed_one(stage, vendor):
    save(stage, "http", {"url": vendor.url})
    stage.pager("http://127.0.0.1:9/hook")
    until = NOON + timedelta(days=29)
    told = []
    for day, met in ((0, until), (20, until), (21, NOON + timedelta(days=120)), (22, NOON + timedelta(days=120))):
        now = NOON + timedelta(days=day)
        certificates.note_certificate(dependency_id=stage.search.pk, until=met, now=now)
        alert_causes.dispatch_due_causes(now=now)
        sent = AlertDelivery.objects.order_by("created_at", "-event")
        told.append([(each.event, each.body["text"].splitlines()[2][:15]) for each in sent])

    assert told[0] == [("certificate", "A probe met it.")]
    assert told[1] == [*told[0], ("resolved", "It is not over:"), told[0][0]]
    assert told[3] == told[2] == [*told[1], ("resolved", "It is over.")]
    incidents = AlertDelivery.objects.values_list("incident", flat=True)
    assert all(list(incidents).count(each) == 2 for each in incidents)
    assert not AlertCause.objects.filter(ended_at=None).exists()


def test_a_certificate_of_a_probe_that_is_gone_is_nobodys_warning_any_more(stage, vendor):
    save(stage, "http", {"url": vendor.url})
    certificates.note_certificate(dependency_id=stage.search.pk, until=NOON + timedelta(days=2), now=NOON)
    Probe.objects.all().delete()
    alert_causes.dispatch_due_causes(now=NOON + timedelta(minutes=5))

    assert not AlertCause.objects.filter(ended_at=None).exists()


@pytest.mark.parametrize("other_days", [4, 90])
def test_two_servers_with_two_certificates_behind_one_name_do_not_warn_in_turn(stage, vendor, other_days):
    save(stage, "http", {"url": vendor.url})
    for minute in range(20):
        until = NOON + timedelta(days=2 if minute % 2 else other_days)
        certificates.note_certificates({stage.search.pk: until.timestamp()}, now=NOON + timedelta(minutes=minute))

    assert AlertCause.objects.filter(kind="certificate").count() == 1


def test_a_round_notes_the_certificate_that_it_met(stage, servers, monkeypatch):
    servers["certificate"].trusted(monkeypatch)
    there = {"host": "127.0.0.1", "port": servers["grpc"].tls_port, "server_name": "vendor.example"}
    save(stage, "grpc", there)
    stage.open()
    run_rounds(granted())

    kept = Probe.objects.get().certificate_until
    assert stage.closed
    assert timedelta(days=58) < kept - datetime.now(UTC) < timedelta(days=61)
