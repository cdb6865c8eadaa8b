"""A dependency without a probe, the whole way: opened by its callers, tested by a later run, readmitted by a ramp."""

from __future__ import annotations

from controlplane import clock
from controlplane.models import Circuit, Transition
from controlplane.services import circuits, policies
from tests.edge import harness


def fails(**_):
    raise ConnectionError("away")


def works(**_):
    return "found"


def shown(run):
    return bool(run.tools([{"name": "web_search"}]))


def causes(dependency):
    return list(
        Transition.objects.filter(circuit__dependency=dependency).order_by("id").values_list("cause", flat=True)
    )


def ready(fleet, **more):
    """search-api opens at the first failures of two workers and is due a moment later."""
    fleet.tools["web_search"].__class__.objects.filter(dependencies=fleet.search_api).update(
        side_effect="read_only", class_confirmed=True
    )
    policies.publish(
        environment=fleet.prod, level="dependency", dependency=fleet.search_api, reason="test", actor="petra",
        now=clock.now(), values={"settle_s": 0, "jitter": 0, "consecutive_failures": 2, "cooldown_s": 0.2,
                                 "worker_cooldown_s": 0.1, **more},
    )  # fmt: skip


def opened(fleet, agents):
    """Both have met the outage; each keeps a place for its next run."""
    stuck = [client.run() for client in agents]
    for run in stuck:
        for step in range(3):
            run.step()
            run.call("web_search", {"q": step}, fails)
    row = Circuit.objects.get(dependency=fleet.search_api)
    harness.until(lambda: (row.refresh_from_db(), row.state == "open")[1], within=20, what="the opening")
    harness.until(lambda: not any(shown(run) for run in stuck), within=20, what="the withdrawal")
    for client in agents:
        harness.until(lambda client=client: client.permits._places, within=20, what="a place")
    return row, stuck


def test_a_later_runs_call_closes_what_no_probe_tests(fleet, agent):
    ready(fleet)
    agents = [agent("pod-1"), agent("pod-2")]
    row, stuck = opened(fleet, agents)
    later = agents[0].run()
    assert shown(later)

    assert later.call("web_search", {}, works) == "found"

    harness.until(lambda: (row.refresh_from_db(), row.state == "closed")[1], within=20, what="the closing")
    assert causes(fleet.search_api)[-2:] == ["probe_started", "probe_passed"]
    told = Transition.objects.get(circuit=row, cause="probe_started").evidence["permit"]
    assert told["tool"] == "web_search" and told["instance"] == "pod-1"
    assert not any(shown(run) for run in stuck)
    assert shown(later)


def test_a_ramp_after_the_permit_opens_again_by_the_admitted_and_ends_by_hand(fleet, agent):
    ready(fleet, ramp=[1.0], ramp_step_s=600)
    agents = [agent("pod-1"), agent("pod-2")]
    row, _ = opened(fleet, agents)
    agents[0].run().call("web_search", {}, works)
    harness.until(lambda: (row.refresh_from_db(), row.cause == "ramp_started")[1], within=20, what="the ramp")
    admitted = agents[1]
    harness.until(lambda: shown(admitted.run()), within=20, what="the share heard")

    for step in range(3):
        run = admitted.run()
        run.step()
        run.call("web_search", {"q": step}, fails)

    harness.until(lambda: "ramp_failed" in causes(fleet.search_api), within=20, what="the opening")
    circuits.force_close(dependency_id=fleet.search_api.pk, actor="ada", reason="fixed", now=clock.now())
    row.refresh_from_db()
    assert row.state == "closed"
