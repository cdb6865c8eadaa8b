"""The cast with a probe, a pager, and a policy whose waits are short enough for a test to wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlplane import clock
from controlplane.models import AlertChannel, Circuit, Dependency, ProbeRound, Transition
from controlplane.services import alerts, circuits, policies, probes
from controlplane.services import egress as egress_service
from tests.factories import Cast, cast, dependency

QUICK = {"cooldown_s": 0.2, "cooldown_max_s": 0.2, "jitter": 0.0, "probe_timeout_s": 1.5}


@dataclass
class Stage:
    """The cast, and the one dependency that this test is about."""

    cast: Cast
    search: Dependency

    @property
    def circuit(self) -> Circuit:
        return Circuit.objects.get(dependency=self.search)

    @property
    def closed(self) -> bool:
        return self.circuit.state == "closed"

    @property
    def rounds(self) -> list[ProbeRound]:
        return list(ProbeRound.objects.filter(circuit__dependency=self.search).order_by("granted_at"))

    @property
    def bad_rounds(self) -> int:
        return sum(each.verdict == "bad" for each in self.rounds)

    @property
    def closings(self) -> int:
        moves = Transition.objects.filter(circuit__dependency=self.search)
        return moves.filter(from_state="half_open", to_state="closed").count()

    def policy(self, **values: Any) -> None:
        policies.publish(
            environment=self.cast.prod, level="dependency", dependency=self.search, values={**QUICK, **values},
            reason="quick for a test", actor="ada", now=clock.now(),
        )  # fmt: skip

    def probe(self, url: str, **spec: Any) -> None:
        probes.save_probe(
            dependency=self.search, operation="web_search", spec={"url": url, **spec}, actor="ada", now=clock.now()
        )

    def pager(self, hook: str) -> tuple[AlertChannel, str]:
        return alerts.save_channel(
            environment=self.cast.prod, kind="webhook", name="pager", target=hook, actor="ada", now=clock.now()
        )

    def open(self, dependency: Dependency | None = None) -> None:
        """Open by hand and let go: open, and due for a probe at once."""
        now, target = clock.now(), (dependency or self.search).pk
        until = clock.instant(clock.seconds(now) + 60)
        circuits.hold_open(dependency_id=target, actor="otto", reason="a drill", now=now, until=until)
        circuits.release(dependency_id=target, actor="otto", reason="go on", now=clock.now())


def audience() -> Cast:
    """Everybody, with leave to reach loopback."""
    everybody = cast(clock.now())
    egress_service.allow_network(network="127.0.0.0/8", reason="the vendor of the tests", actor="ada", now=clock.now())
    return everybody


def staged() -> Stage:
    """The cast's own search-api, quick."""
    everybody = audience()
    stage = Stage(everybody, everybody.search_api)
    stage.policy()
    return stage


def another(everybody: Cast, slug: str) -> Stage:
    """A dependency of its own for a test that shares its database with others."""
    stage = Stage(everybody, dependency(everybody.prod, slug, at=clock.now()))
    stage.policy()
    return stage
