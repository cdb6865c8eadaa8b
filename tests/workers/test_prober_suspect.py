"""A prober that is cut off itself: nothing it says counts against a dependency, and people hear of it once."""

import socket

import pytest

from controlplane import clock
from controlplane.models import Circuit, ProbeRound
from controlplane.probe_spec import control
from controlplane.services import alert_causes, alerts, catalogue, circuits, probes
from controlplane.services.errors import Refused
from tests.factories import NOON, dependency
from tests.workers.receiver import Receiver
from tests.workers.stage import Stage, staged
from tests.workers.vendor import reply
from workers.tasks.alerts import run_deliveries
from workers.tasks.probes import run_rounds

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage(frozen_clock):
    return staged()


@pytest.fixture
def nowhere():
    """An address of this machine where nobody listens, for as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def set_control(stage, address):
    catalogue.edit_environment(environment=stage.cast.prod, changes={"control_address": address}, actor="ada")


def ask():
    run_rounds([str(each.pk) for each in circuits.claim_rounds(now=clock.now(), limit=20)])


def verdicts():
    return [(each.verdict, each.answered["cause"]) for each in ProbeRound.objects.all()]


def look():
    """What the scheduler and a Celery worker do in one go."""
    alert_causes.dispatch_due_causes(now=clock.now())
    claims = alerts.claim_deliveries(now=clock.now(), limit=100)
    run_deliveries([(str(key), attempt) for key, attempt in claims])


@pytest.mark.case("P02")
def test_p02_seven_dependencies_fail_with_the_control_address_and_one_alert_says_prober_suspect(
    stage, vendor, nowhere, frozen_clock
):
    set_control(stage, nowhere)
    stages = [stage, *(Stage(stage.cast, dependency(stage.cast.prod, f"api-{number}")) for number in range(6))]
    with Receiver() as receiver:
        stage.pager(receiver.hook)
        for each in stages:
            each.policy(cooldown_s=5.0, cooldown_max_s=60.0)
            each.probe("http://127.0.0.1:1/health")
            each.open()
        for _ in range(3):
            ask()
            look()
            frozen_clock.advance(10)

        assert set(verdicts()) == {("inconclusive", "prober_suspect")}
        assert ProbeRound.objects.count() == 21
        kept = Circuit.objects.filter(rounds__isnull=False).distinct()
        assert {each.state for each in kept} == {"open"}
        assert {(each.core["failed_rounds"], each.core["cooldown_s"]) for each in kept} == {(0, None)}
        assert [body["event"] for body in receiver.bodies] == ["prober_suspect"]
        assert receiver.bodies[0]["title"] == "Prober suspect in prod"

        set_control(stage, vendor.url.removeprefix("http://"))
        for _ in range(4):
            ask()
            frozen_clock.advance(60)
            look()
        assert [body["event"] for body in receiver.bodies] == ["prober_suspect", "resolved"]


def test_a_dependency_that_is_down_while_the_control_address_answers_is_down(stage, vendor):
    set_control(stage, vendor.url.removeprefix("http://"))
    stage.probe(f"{vendor.url}/down")
    stage.open()
    ask()

    assert verdicts() == [("bad", "status")]


def test_a_good_answer_closes_whatever_the_control_address_says(stage, vendor, nowhere):
    set_control(stage, nowhere)
    stage.probe(f"{vendor.url}/ok")
    stage.open()
    ask()

    assert stage.closed


def test_a_wait_that_an_answer_asked_for_is_not_taken_from_a_suspect_prober(stage, vendor, nowhere, frozen_clock):
    vendor.routes["/wait"] = reply(503, Retry_After="900")
    set_control(stage, nowhere)
    stage.probe(f"{vendor.url}/wait")
    stage.open()
    ask()

    assert verdicts() == [("inconclusive", "prober_suspect")]
    assert (stage.circuit.due_at - NOON).total_seconds() == pytest.approx(0.2)


def test_the_installations_address_holds_until_an_environment_names_its_own_or_none(stage, settings, nowhere):
    settings.CONTROL_ADDRESS = nowhere
    assert probes.control_of(stage.cast.prod) == nowhere
    set_control(stage, "127.0.0.1:9")
    assert probes.control_of(stage.cast.prod) == "127.0.0.1:9"
    set_control(stage, "off")
    assert probes.control_of(stage.cast.prod) == ""


def test_a_lease_has_room_for_the_control_address(stage, vendor, nowhere):
    set_control(stage, nowhere)
    stage.probe(f"{vendor.url}/ok", time_limit_s=30)
    stage.open()
    [row] = circuits.claim_rounds(now=NOON, limit=1)

    assert (row.lease_expires_at - row.granted_at).total_seconds() == 32 + control.LIMIT_S


@pytest.mark.parametrize("bad", ["example.com", "example.com:0", "example.com:http", ":443", "a b:443", "http://x:80"])
def test_what_is_no_host_and_port_is_refused_with_its_field(stage, bad):
    with pytest.raises(Refused) as refused:
        set_control(stage, bad)
    assert (refused.value.code, refused.value.field) == ("bad_field", "control_address")


def test_an_address_that_probes_may_not_reach_is_refused(stage):
    with pytest.raises(Refused) as refused:
        set_control(stage, "10.0.0.1:443")
    assert refused.value.field == "control_address"
