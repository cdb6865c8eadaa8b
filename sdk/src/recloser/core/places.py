"""One round asked from several places: who votes, how many must agree, and what their votes come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from recloser.core.rounds import combined
from recloser.core.schema import CircuitPolicy
from recloser.core.types import Verdict


class AskFrom(StrEnum):
    """Where a probe is asked from."""

    CONTROL_PLANE = "control_plane"
    AGENTS = "agents"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Seating:
    """The places of one round."""

    vantages: tuple[str, ...]
    """The control plane's own, by name."""
    agents: int
    """How many willing agent processes."""
    wanted: int
    """As many as the policy asks for; there may be fewer."""
    quorum: int
    """Of those seated, how many must find it good."""

    @property
    def places(self) -> int:
        """All that vote."""
        return len(self.vantages) + self.agents


def seated(policy: CircuitPolicy, ask_from: AskFrom, vantages: Sequence[str], willing: int) -> Seating:
    """Of the places that are alive, those that a round is asked from: as many as wanted, else what there is.

    `vantages` in the order of preference; `willing` agent processes of different workers. Asked from agents alone, one
    seat is kept even where none is willing yet: one may come while the lease runs.
    """
    wanted = max(policy.vantage_points, 2 if ask_from is AskFrom.BOTH else 1)
    match ask_from:
        case AskFrom.CONTROL_PLANE:
            own, agents = tuple(vantages[:wanted]), 0
        case AskFrom.AGENTS:
            own, agents = (), max(1, min(wanted, willing))
        case _:
            agents = min(willing, max(wanted // 2, wanted - len(vantages)))
            own = tuple(vantages[: wanted - agents])
    return Seating(own, agents, wanted, min(policy.vantage_quorum, len(own) + agents))


def outcome(votes: Iterable[Verdict], policy: CircuitPolicy, *, places: int, quorum: int) -> Verdict | None:
    """The one verdict of a round with so many places; None while it is still open."""
    return combined(votes, replace(policy, vantage_points=places, vantage_quorum=quorum))
