"""The prober of several steps: requests in a row to one host, captured values, and a clean-up that always runs."""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from recloser.core.probe import Fault

from controlplane.masking import masked
from controlplane.probe_spec.conditions import Seen, at_path, judged
from controlplane.probe_spec.steps import HEADER, PLACE, Step, StepsSpec
from workers.egress import GuardedBackend
from workers.probers import web
from workers.probers.answer import Fell, Findings
from workers.probers.faults import fault_of

CLEANUP_SHARE = 0.3
"""Of the time limit, what the clean-up may take; the steps have the rest."""
LONGEST_VALUE = 2000


def asked(spec: StepsSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """Each step, as it is written: captured values are no part of it."""
    steps = [*spec.steps, *([spec.cleanup] if spec.cleanup else [])]
    return {
        "method": f"{len(spec.steps)} steps" + (" and a clean-up" if spec.cleanup else ""),
        "address": web.shown(spec.url, secrets),
        "headers": web.shown_headers({}, secrets),
        "steps": [f"{each.name}: {each.method} {masked(each.path.partition('?')[0], secrets)}" for each in steps],
    }


async def converse(
    spec: StepsSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Step by step until one fails; then, whatever happened, the clean-up."""
    walk = _Walk(spec, secrets, found)
    kept_s = time_limit_s * CLEANUP_SHARE if spec.cleanup else 0.0
    async with web.client(backend, time_limit_s, kept=1) as http:
        try:
            async with asyncio.timeout(time_limit_s - kept_s):
                await walk.through(http)
        finally:
            if spec.cleanup is not None:
                await walk.clean_up(http, spec.cleanup, kept_s)


class _Walk:
    """One run through the steps."""

    def __init__(self, spec: StepsSpec, secrets: Mapping[str, str], found: Findings) -> None:
        self._spec, self._secrets, self._found = spec, secrets, found
        self._captured: dict[str, str] = {}

    async def through(self, http: httpx.AsyncClient) -> None:
        """Each step in turn; the first whose conditions do not all hold is the last."""
        for step in self._spec.steps:
            seen = await self._send(http, step, self._found)
            for met in judged(step, seen):
                self._found.met(met, step=step.name)
            if not all(each["held"] for each in self._found.conditions):
                return
            self._capture(step, seen)

    async def clean_up(self, http: httpx.AsyncClient, step: Step, limit_s: float) -> None:
        """Its own answer changes no verdict; that it failed is told."""
        if not step.uses <= self._captured.keys():
            return
        aside = Findings(hidden=self._found.hidden)
        try:
            async with asyncio.timeout(limit_s):
                seen = await self._send(http, step, aside)
            failed = ", ".join(met.name for met in judged(step, seen) if not met.held)
        except Exception as error:
            failed = str(fault_of(error, limit_s)[0])
        if failed:
            self._found.detail = f"the clean-up failed: {failed}"
        self._found.asked["cleaned_up"] = not failed

    async def _send(self, http: httpx.AsyncClient, step: Step, found: Findings) -> Seen:
        began = time.monotonic()
        async with web.exchange(http, self._request(http, step), found) as response:
            await web.read_body(response, found)
        found.seen.took_ms = round((time.monotonic() - began) * 1000, 1)
        return found.seen

    def _request(self, http: httpx.AsyncClient, step: Step) -> httpx.Request:
        url = httpx.URL(self._spec.url.rstrip("/") + self._filled(step.path, lambda value: quote(value, safe="")))
        headers = {name: self._filled(value, _header_safe) for name, value in step.headers.items()}
        body = self._filled(step.body, _json_safe if step.body.lstrip().startswith(("{", "[")) else str)
        return http.build_request(step.method, url, headers={**headers, **self._secrets}, content=body or None)

    def _filled(self, text: str, safe: Any) -> str:
        return PLACE.sub(lambda place: safe(self._captured[place[1]]), text)

    def _capture(self, step: Step, seen: Seen) -> None:
        """What later steps use; as little of it is kept as of a secret."""
        for name, place in step.capture.items():
            value = _value_at(place, seen)
            if value is None:
                raise Fell(Fault.BROKEN, f"step {step.name}: there was nothing to capture as {name}")
            self._captured[name] = value
            self._found.hidden[f"captured {name}"] = value


def _value_at(place: str, seen: Seen) -> str | None:
    if place.startswith(HEADER):
        return seen.headers.get(place.removeprefix(HEADER).casefold())
    try:
        value = at_path(json.loads(seen.body or ""), place)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value) if len(str(value)) <= LONGEST_VALUE else None


def _header_safe(value: str) -> str:
    return "".join(each for each in value if " " <= each <= "~")


def _json_safe(value: str) -> str:
    return json.dumps(value)[1:-1]
