"""The cast with a probe, a pager, and a policy whose waits are short enough for a test to wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlplane import clock
from controlplane.models import Circuit, Dependency
from controlplane.services import alerts, circuits, policies, probes
from controlplane.services import egress as egress_service
from tests.factories import Cast, cast

QUICK = {"cooldown_s": 0.2, "cooldown_max_s": 0.2, "jitter": 0.0, "probe_timeout_s": 1.5}


@dataclass
class Stage:
    cast: Cast

    @property
    def search(self) -> Dependency:
        return self.cast.search_api

    @property
    def circuit(self) -> Circuit:
        return Circuit.objects.get(dependency=self.search)

    def policy(self, **values: Any) -> None:
        policies.publish(
            environment=self.cast.prod, level="dependency", dependency=self.search, values={**QUICK, **values},
            reason="quick for a test", actor="ada", now=clock.now(),
        )  # fmt: skip

    def probe(self, url: str, **spec: Any) -> None:
        probes.save_probe(
            dependency=self.search, operation="web_search", spec={"url": url, **spec}, actor="ada", now=clock.now()
        )

    def pager(self, hook: str) -> str:
        return alerts.save_channel(
            environment=self.cast.prod, kind="webhook", name="pager", target=hook, actor="ada", now=clock.now()
        )[1]

    def open(self, dependency: Dependency | None = None) -> None:
        """Open by hand and let go: open, and due for a probe at once."""
        now, target = clock.now(), (dependency or self.search).pk
        until = clock.instant(clock.seconds(now) + 60)
        circuits.hold_open(dependency_id=target, actor="otto", reason="a drill", now=now, until=until)
        circuits.release(dependency_id=target, actor="otto", reason="go on", now=clock.now())


def staged() -> Stage:
    """Everybody on stage, with leave to reach loopback."""
    stage = Stage(cast(clock.now()))
    egress_service.allow_network(network="127.0.0.0/8", reason="the vendor of the tests", actor="ada", now=clock.now())
    stage.policy()
    return stage
