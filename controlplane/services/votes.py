"""What the places of a round say; the round is over as soon as its quorum is reached or out of reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from recloser.core.places import outcome
from recloser.core.types import Verdict

from controlplane.models import ProbeRound, ProbeVote
from controlplane.selectors import policies
from controlplane.services import probes
from controlplane.services.probes import Job
from controlplane.services.rounds import Answered, finish_rounds


@dataclass(frozen=True, slots=True)
class Cast:
    """One vote."""

    vote_id: UUID
    verdict: Verdict
    answered: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] | None = None
    connected_at: datetime | None = None


def to_ask(round_ids: Iterable[UUID]) -> dict[str, list[UUID]]:
    """By vantage, the seats that the control plane's own places have in these rounds."""
    found: dict[str, list[UUID]] = {}
    for pk, place in ProbeVote.objects.filter(round__in=list(round_ids), by_agent=False).values_list("pk", "place"):
        found.setdefault(place, []).append(pk)
    return found


@transaction.atomic
def take_votes(*, ids: Iterable[UUID | str], now: datetime) -> list[Job]:
    """Those of these seats that nobody has taken and whose round still runs; a second taker gets none."""
    rows = ProbeVote.objects.filter(
        id__in=list(ids), taken_at=None, by_agent=False, round__finished_at=None, round__lease_expires_at__gt=now
    ).select_for_update(skip_locked=True, no_key=True, of=("self",))
    taken = list(rows.select_related("round__circuit__dependency__probe", "round__circuit__dependency__environment"))
    ProbeVote.objects.filter(pk__in=[row.pk for row in taken]).update(taken_at=now)
    ProbeRound.objects.filter(pk__in={row.round_id for row in taken}, dispatched_at=None).update(dispatched_at=now)
    return [replace(probes.job_of_round(row.round, now), id=row.pk) for row in taken]


def cast(*, votes: Sequence[Cast], now: datetime) -> dict[UUID, bool]:
    """Keep each vote once, and end the rounds that they decide; by vote, whether it was kept.

    A vote is committed before its round is judged: two that arrive together both see the other's, and the second
    verdict of a round changes nothing.
    """
    kept = {each.vote_id: _keep(each, now) for each in votes}
    rounds = ProbeVote.objects.filter(pk__in=[pk for pk, new in kept.items() if new]).values_list("round", flat=True)
    _end_decided(set(rounds), {each.vote_id: each for each in votes}, now)
    return kept


def _keep(vote: Cast, now: datetime) -> bool:
    rows = ProbeVote.objects.filter(pk=vote.vote_id, voted_at=None, round__finished_at=None)
    return bool(rows.update(voted_at=now, verdict=vote.verdict.value, answered=dict(vote.answered)))


def _end_decided(round_ids: set[UUID], told: Mapping[UUID, Cast], now: datetime) -> None:
    rows = ProbeRound.objects.filter(pk__in=round_ids, finished_at=None).select_related("circuit__dependency")
    open_rounds = list(rows.prefetch_related("votes"))
    known = policies.circuit_policies([row.circuit for row in open_rounds])
    decided = [_decided(row, known[row.circuit.dependency_id], told) for row in open_rounds]
    finish_rounds([each for each in decided if each is not None], now=now)


def _decided(row: ProbeRound, policy: Any, told: Mapping[UUID, Cast]) -> Answered | None:
    """The round's answer once its votes come to one: of those that found so, the first one's words."""
    votes = list(row.votes.all())
    given = [each for each in votes if each.voted_at is not None]
    verdicts = [Verdict(each.verdict) for each in given]
    verdict = outcome(verdicts, policy, places=len(votes), quorum=row.quorum or 1)
    if verdict is None:
        return None
    speaker = next((each for each in given if each.verdict == verdict.value), given[0])
    last = next((told[each.pk] for each in given if each.pk in told and told[each.pk].asked), None)
    waits = [each.answered.get("retry_after_s") for each in given if each.verdict == Verdict.BAD.value]
    return Answered(
        round_id=row.pk,
        verdict=verdict,
        operation=row.operation or None,
        retry_after_s=max((wait for wait in waits if wait is not None), default=None),
        answered=speaker.answered,
        asked=last.asked if last else None,
        connected_at=last.connected_at if last else None,
    )
