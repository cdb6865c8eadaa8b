"""From the deciding batch to the webhook received, beside a bare Celery task that sends a request to the same receiver.

    python -m bench.alert_lateness [--rounds 40]

A real edge, scheduler and Celery worker (threads, 16) on this machine. The clock starts as the batch that completes the
evidence is sent (or the bare task is), and stops when the receiver's socket accepts. Between them lie, for ours: the
batch's commit, the count, the judgement, the opening, the outbox's sweep, the claim, the hand-off, the guard and the
signature. `settle_s` is 0: otherwise half a second is waited on purpose. Both in turn, each round.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import time
from typing import Any

from bench import edge_stage, probes_lateness
from bench.edge_stage import Agent, Caller
from bench.stage import percentile
from bench.vendor import Vendor

HOOK = "hook"
PATIENCE_S = 60.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    with edge_stage.servers():
        edge_stage.cast()
        edge_stage.publish(settle_s=0, min_workers=1, min_calls=5)
        vendor = Vendor()
        _channel(vendor)
        children = [subprocess.Popen(command) for command in (probes_lateness.WORKER, probes_lateness.SCHEDULER)]
        try:
            probes_lateness.until_both_work()
            with edge_stage.serving("controlplane.asgi:application") as edge:
                _tell(*asyncio.run(_measure(edge, vendor, asked.rounds)))
        finally:
            _end(children)


def _channel(vendor: Vendor) -> None:
    from controlplane import clock
    from controlplane.models import Environment
    from controlplane.services import alerts, egress

    now = clock.now()
    egress.allow_network(network="127.0.0.0/8", reason="the receiver of the bench", actor="ada", now=now)
    alerts.save_channel(
        environment=Environment.objects.get(slug="prod"), kind="webhook", name="pager", target=vendor.url(HOOK),
        actor="ada", now=now,
    )  # fmt: skip


async def _measure(edge: int, vendor: Vendor, rounds: int) -> tuple[list[float], list[float]]:
    caller, agent = await Caller.to(edge), Agent(0, {"timeout": 20}, 20)
    ours, bare = [], []
    for number in range(rounds + 1):
        task = await asyncio.to_thread(_bare, vendor, number)
        began = time.time()
        await caller.ask(agent.batch(2 * number))  # opened by this, closed by hand
        await asyncio.to_thread(vendor.wait_for, [HOOK], PATIENCE_S)
        alert = vendor.seen.pop(HOOK) - began
        await asyncio.to_thread(_close_again, vendor)
        if number:  # the first one warms
            ours.append(alert)
            bare.append(task)
    caller.close()
    return ours, bare


def _bare(vendor: Vendor, number: int) -> float:
    from bench.bare import ask

    path, began = f"bare-{number}", time.time()
    ask.apply_async((vendor.url(path),))
    vendor.wait_for([path], PATIENCE_S)
    return vendor.seen[path] - began


def _close_again(vendor: Vendor) -> None:
    """By hand; that is told, too, and waited for, so that the rounds are alike."""
    from django.db import connections

    from controlplane import clock
    from controlplane.models import Dependency
    from controlplane.services import circuits

    dependency = Dependency.objects.get(slug="search-api")
    circuits.force_close(dependency_id=dependency.pk, actor="bench", reason="again", now=clock.now())
    vendor.wait_for([HOOK], PATIENCE_S)
    del vendor.seen[HOOK]
    connections.close_all()


def _tell(ours: list[float], bare: list[float]) -> None:
    print(f"\nfrom the deciding batch to the webhook received ({len(ours)} rounds)")
    for share in (0.5, 0.99):
        alert, task = percentile(ours, share) * 1000, percentile(bare, share) * 1000
        print(f"  p{share * 100:<3.0f} alert {alert:7.0f} ms   bare task {task:7.0f} ms   ratio {alert / task:5.2f}")


def _end(children: list[subprocess.Popen[Any]]) -> None:
    for child in children:
        child.terminate()
    for child in children:
        child.wait(10)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
