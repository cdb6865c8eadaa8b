"""How late a probe is: from due to connected, p50 and p99, beside a bare Celery task that sends the same request.

    python -m bench.probes_lateness [--at-once 200] [--jittered 1000] [--over 5] [--rounds 3]

A real scheduler and a real Celery worker (threads, 16) on this machine; both kinds of work go through that same Celery
worker, in turn. Connected is when the vendor's socket accepts. The bare task is sent at the moment it is due, by this
process; it has no lease, verdict, guard or record. The middle round of several is told.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench import stage
from bench.vendor import Vendor

WORKER = (
    *(sys.executable, "-m", "celery", "-A", "bench.bare", "worker", "--pool", "threads", "--concurrency", "16"),
    *("--loglevel", "warning", "--without-gossip", "--without-mingle"),
)
SCHEDULER = (sys.executable, "manage.py", "run_scheduler")
LEAD_S = 1.5
"""From setting the deadlines to the first of them."""

Late = list[float]


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    stage.servers()
    vendor, children = Vendor(), []
    try:
        fleet = _fleet(vendor, max(arguments.at_once, arguments.jittered))
        children += [subprocess.Popen(command) for command in (WORKER, SCHEDULER)]
        until_both_work()
        cases = {
            f"{arguments.at_once} at once": (arguments.at_once, 0.0),
            f"{arguments.jittered} over {arguments.over:g} s": (arguments.jittered, arguments.over),
        }
        for name, (count, over_s) in cases.items():
            _measure(name, fleet, vendor, count, over_s, arguments.rounds)
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(10)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--jittered", type=int, default=1000)
    parser.add_argument("--over", type=float, default=5.0, help="seconds")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def _fleet(vendor: Vendor, count: int) -> stage.Fleet:
    from controlplane import clock
    from controlplane.models import Probe
    from controlplane.services import egress, policies

    now = clock.now()
    fleet = stage.Fleet("prod", now, workers=1)
    egress.allow_network(network="127.0.0.0/8", reason="the vendor of the bench", actor="ada", now=now)
    fleet.circuits(count)
    policies.publish(
        environment=fleet.environment, level="environment", values={"circuit": {"probe_successes": 1}},
        reason="one good round closes", actor="ada", now=now,
    )  # fmt: skip
    Probe.objects.bulk_create(
        Probe(
            dependency=each, operation="search", spec={"url": vendor.url(f"probe-{number}")}, updated_at=now,
            updated_by="ada",
        )
        for number, each in enumerate(fleet.dependencies)
    )  # fmt: skip
    return fleet


def until_both_work() -> None:
    """Until the scheduler leads and a Celery worker listens."""
    from controlplane.models import ProcessBeat

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        beats = {beat.kind: beat.detail for beat in ProcessBeat.objects.all()}
        if beats.get("scheduler", {}).get("broker") == "ok" and beats.get("worker", {}).get("listening"):
            return
        time.sleep(0.1)
    raise TimeoutError("scheduler and Celery worker did not come up")


def _measure(name: str, fleet: stage.Fleet, vendor: Vendor, count: int, over_s: float, rounds: int) -> None:
    random.seed(count)
    delays = sorted(random.uniform(0.0, over_s) for _ in range(count))  # noqa: S311
    ours, bare = [], []
    for number in range(rounds):
        bare.append(_bare(vendor, delays, number))
        ours.append(_probes(fleet, vendor, delays))
    for share in (0.5, 0.99):
        probe, task = (_middle(all_rounds, share) for all_rounds in (ours, bare))
        figures = f"probe {probe * 1000:7.0f} ms   bare task {task * 1000:7.0f} ms   ratio {probe / task:5.2f}"
        print(f"{name:16} p{share * 100:<3.0f} {figures}", flush=True)


def _middle(rounds: Sequence[Late], share: float) -> float:
    return stage.percentile([stage.percentile(each, share) for each in rounds], 0.5)


def _bare(vendor: Vendor, delays: list[float], number: int) -> Late:
    from bench.bare import ask

    begins = time.time() + 0.2
    paths = [f"bare-{len(delays)}-{number}-{place}" for place in range(len(delays))]
    for path, delay in zip(paths, delays, strict=True):
        if (wait := begins + delay - time.time()) > 0:
            time.sleep(wait)
        ask.apply_async((vendor.url(path),))
    vendor.wait_for(paths, 60)
    return [vendor.seen[path] - begins - delay for path, delay in zip(paths, delays, strict=True)]


def _probes(fleet: stage.Fleet, vendor: Vendor, delays: list[float]) -> Late:
    from controlplane import clock

    paths = [f"probe-{number}" for number in range(len(delays))]
    for path in paths:
        vendor.seen.pop(path, None)
    begins = clock.now().timestamp() + LEAD_S
    _open(fleet, [begins + delay for delay in delays])
    vendor.wait_for(paths, 120)
    _until(lambda: _open_circuits() == 0, 60)
    return [vendor.seen[path] - begins - delay for path, delay in zip(paths, delays, strict=True)]


def _open(fleet: stage.Fleet, due_at: list[float]) -> None:
    """Each open and due at its own moment; one transaction, so that the scheduler sees all or nothing."""
    import dataclasses

    from django.db import transaction
    from recloser.core import circuit as core
    from recloser.core.types import Cause, State

    from controlplane import clock
    from controlplane.models import Circuit
    from controlplane.services import transitions

    rows = {row.dependency_id: row for row in Circuit.objects.all()}
    now = clock.now().timestamp()
    with transaction.atomic():
        changed = []
        for dependency, due in zip(fleet.dependencies, due_at, strict=False):
            row = rows[dependency.pk]
            before = transitions.core_of(row)
            after = dataclasses.replace(
                before, state=State.OPEN, generation=before.generation + 1, changed_at=now, opened_at=now, due_at=due,
                cause=Cause.FAILURE_RATE, round=None, failed_rounds=0, cooldown_s=60.0,
            )  # fmt: skip
            row.core, row.state, row.generation = core.to_dict(after), "open", after.generation
            row.opened_at, row.due_at = clock.instant(now), clock.instant(due)
            changed.append(row)
        Circuit.objects.bulk_update(changed, ["core", "state", "generation", "opened_at", "due_at"])


def _open_circuits() -> int:
    from controlplane.models import Circuit

    return Circuit.objects.exclude(state="closed").count()


def _until(wanted: Callable[[], Any], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not wanted():
        if time.monotonic() > deadline:
            raise TimeoutError("the rounds did not end")
        time.sleep(0.1)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
