"""Who votes on a round: seats are made when it is granted; a round that one Celery worker decides alone has none."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime

from recloser.core.places import AskFrom, Seating, seated
from recloser.core.policy import CircuitPolicy

from controlplane import probe_spec
from controlplane.models import Probe, ProbeRound, ProbeVote
from controlplane.probe_spec import BadSpec
from controlplane.probe_spec.agents import host_and_port
from controlplane.selectors import places

PICK_UP_S = 5.0
"""Within so long a willing agent process asks whether there is something to probe."""
RETURN_S = 3.0
"""For taking an offer and telling its result, beside the probe's own time limit."""


def needed(probe: Probe, policy: CircuitPolicy) -> bool:
    """Whether more places than one, or an agent, have a say."""
    return policy.vantage_points > 1 or probe.ask_from != AskFrom.CONTROL_PLANE


def room_s(probe: Probe) -> float:
    """What the lease of a round has beside, where agents are asked: for the first, and for another after it."""
    if probe.ask_from == AskFrom.CONTROL_PLANE:
        return 0.0
    return PICK_UP_S + 2 * RETURN_S + float(probe.spec.get("time_limit_s", 0.0))


def make(granted: Iterable[tuple[ProbeRound, Probe, CircuitPolicy]], now: datetime) -> list[ProbeVote]:
    """The seats of those rounds that need them, not stored yet; each round is told how many places and what quorum."""
    wanted = [each for each in granted if needed(each[1], each[2])]
    if not wanted:
        return []
    own = places.vantages(now)
    probers = places.trusted_probers({row.circuit.environment_id for row, _, _ in wanted}, now)
    made: list[ProbeVote] = []
    for row, probe, policy in wanted:
        willing = places.willing(probers, row.circuit.environment_id, _host(probe))
        seating = seated(policy, AskFrom(probe.ask_from), own, willing)
        row.places_wanted, row.quorum = seating.wanted, seating.quorum
        made += _seats(row, seating)
    return made


def _host(probe: Probe) -> str:
    try:
        return host_and_port(probe_spec.read(probe.spec, probe.kind))
    except BadSpec:
        return ""


def _seats(row: ProbeRound, seating: Seating) -> list[ProbeVote]:
    own = [ProbeVote(id=uuid.uuid4(), round=row, place=name) for name in seating.vantages]
    return own + [ProbeVote(id=uuid.uuid4(), round=row, by_agent=True) for _ in range(seating.agents)]
