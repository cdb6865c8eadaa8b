"""One file for each kind of probe, and the one way to ask any of them. No database and no Django in here.

A prober's file has two functions: `asked` says in words that may be shown what is sent, `converse` sends it and fills
the findings in. Whatever goes wrong in it is an exception; what that means is said in `faults`.
"""

import asyncio
import importlib
import time
from collections.abc import Mapping
from typing import Any, Protocol, cast

from controlplane.masking import masked
from controlplane.probe_spec import Spec
from controlplane.probe_spec.conditions import judged
from workers.egress import GuardedBackend
from workers.probers.answer import Findings, Unmet
from workers.probers.faults import fault_of

LONGEST_DETAIL = 200


class Prober(Protocol):
    """What the file of a kind has."""

    def asked(self, spec: Any, secrets: Mapping[str, str]) -> dict[str, Any]:
        """What is sent, secrets masked."""

    async def converse(
        self, spec: Any, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
    ) -> None:
        """Ask, and note what was seen."""


def prober_of(kind: str) -> Prober:
    """The file of this kind, loaded when the first of its probes is asked."""
    return cast("Prober", importlib.import_module(f"workers.probers.{kind}"))


async def ask(spec: Spec, secrets: Mapping[str, str], backend: GuardedBackend, *, time_limit_s: float) -> Findings:
    """Ask once, in at most `time_limit_s`; whatever happens is a finding, never an exception."""
    prober = prober_of(spec.KIND)
    found = Findings(address=masked(spec.shown_address, secrets)[:500], hidden=dict(secrets))
    started = time.monotonic()
    try:
        found.asked = prober.asked(spec, secrets)
        async with asyncio.timeout(time_limit_s):
            await prober.converse(spec, secrets, backend, found, time_limit_s)
    except Unmet as unmet:
        found.met(unmet.met)
    except Exception as error:
        found.fault, detail = fault_of(error, time_limit_s)
        found.detail = masked(detail, found.hidden)[:LONGEST_DETAIL]
    else:
        _judge(spec, found, started)
    found.took_ms = round((time.monotonic() - started) * 1000, 1)
    found.connected_at = backend.first_connected_at
    return found


def _judge(spec: Spec, found: Findings, started: float) -> None:
    """Hold the answer against the conditions."""
    found.seen.took_ms = round((time.monotonic() - started) * 1000, 1)
    if found.certificate_until is not None:
        found.seen.certificate_days = (found.certificate_until - time.time()) / 86_400
    for met in judged(spec, found.seen):
        found.met(met)
