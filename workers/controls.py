"""After a bad probe: does anything answer this prober at all?"""

import asyncio
import time

from recloser.core.probe import Fault, prober_suspect

from controlplane import egress
from controlplane.probe_spec.tcp import TcpSpec
from workers import probers
from workers.probers.answer import Findings
from workers.way_out import way_out

FRESH_S = 1.0
"""Probes that fail together share one look at the control address."""


class Controls:
    """The control addresses of one batch; on one event loop."""

    def __init__(self, networks: tuple[egress.Network, ...]) -> None:
        self._networks = networks
        self._looks: dict[TcpSpec, tuple[float, asyncio.Task[Findings]]] = {}

    async def consult(self, control: TcpSpec, found: Findings) -> None:
        """Where the control address does not answer either, it is not the dependency that the answer speaks against."""
        seen = await asyncio.shield(self._look(control))
        if prober_suspect(found.ruling(), seen.ruling()):
            first, found.fault = found.ruling().cause, Fault.PROBER_SUSPECT
            found.detail = f"{first}; the control address {control.shown_address} does not answer either"[:200]

    def _look(self, control: TcpSpec) -> asyncio.Task[Findings]:
        at, look = self._looks.get(control, (0.0, None))
        if look is None or time.monotonic() - at > FRESH_S:
            ask = probers.ask(control, {}, way_out(self._networks), time_limit_s=control.time_limit_s)
            look = asyncio.create_task(ask)
            self._looks[control] = (time.monotonic(), look)
        return look
