"""Probes that this process sends for the control plane: to hosts that its own code lists, and to no other.

One at a time, on a thread of its own, so that neither a call nor the line waits for it. It is never a run: what a run
has been told stays. No secret comes with an offer, no redirect is followed, little is read, and what is told back is
a status, a duration or a kind of failure; never a word of the answer.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MOST_HOSTS = 50
LONGEST_S = 30.0
KEPT_IDS = 100
_PLACE = re.compile(r"(\[[0-9a-f:.%]+\]|[a-z0-9._-]+):(\d{1,5})\Z")
_METHODS = ("GET", "HEAD")
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "authorization", "cookie"})
"""Headers that no offer may set."""


def listed(hosts: Iterable[str]) -> tuple[str, ...]:
    """These places as `host:port`; ValueError names the first that is none."""
    if isinstance(hosts, str):
        raise ValueError("probe_hosts is a text; give a list, such as ['crm.internal:443']")
    found = tuple(dict.fromkeys(str(host).strip().casefold() for host in hosts))
    for one in found:
        place = _PLACE.match(one)
        if place is None or not 1 <= int(place[2]) <= 65_535:
            raise ValueError(f"probe_hosts has {one[:80]!r}; write host and port, such as 'crm.internal:443'")
    if len(found) > MOST_HOSTS:
        raise ValueError(f"probe_hosts has {len(found)} places; list at most {MOST_HOSTS}")
    return found


class Unfit(Exception):
    """An offer that this process does not take up: no host of its list, or not what an offer looks like."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One probe on lease, checked."""

    id: str
    generation: int
    host: str
    port: int
    limit_s: float
    url: str | None = None
    """None: a connection alone."""
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, told: Any, hosts: tuple[str, ...]) -> Offer:
        """What the control plane offers, held against this process's own list. Raises Unfit."""
        try:
            limit_s = min(float(told["time_limit_s"]), float(told["lease_s"]), LONGEST_S)
            host, port = _place(told)
            url, method, headers = _request(told)
            offer = cls(str(told["id"])[:64], int(told["generation"]), host, port, limit_s, url, method, headers)
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise Unfit(f"an offer that cannot be read ({type(problem).__name__})") from None
        if offer.place not in hosts:
            raise Unfit(f"{offer.place[:80]} is not in probe_hosts")
        if not (math.isfinite(limit_s) and limit_s > 0.0):
            raise Unfit("an offer whose lease is over")
        return offer

    @property
    def place(self) -> str:
        """As it stands in `probe_hosts`."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def _place(told: Mapping[str, Any]) -> tuple[str, int]:
    """Where it goes: for a web address what that says, whatever else the offer claims."""
    if told["kind"] == "http":
        parts = urlsplit(told["url"])
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ValueError("no plain web address")
        return parts.hostname.casefold(), parts.port or (443 if parts.scheme == "https" else 80)
    if told["kind"] == "tcp":
        name, _, port = str(told["host"]).casefold().rpartition(":")
        return name.removeprefix("[").removesuffix("]"), int(port)
    raise ValueError("another kind")


def _request(told: Mapping[str, Any]) -> tuple[str | None, str, tuple[tuple[str, str], ...]]:
    if told["kind"] != "http":
        return None, "GET", ()
    if told.get("method", "GET") not in _METHODS:
        raise ValueError("another method")
    named = {str(name): str(value) for name, value in dict(told.get("headers") or {}).items()}
    kept = tuple((name, value) for name, value in named.items() if name.casefold() not in _OURS)
    return str(told["url"]), told.get("method", "GET"), kept


class Prober:
    """What this process is willing to probe, what it is at, and what it has not told yet. Any thread may call."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self.hosts = listed(hosts)
        self.problem: str | None = None
        self.after_fork()

    def after_fork(self) -> None:
        """A child has neither its parent's thread nor its leases."""
        self._lock = threading.Lock()
        self._busy = False
        self._begun: dict[str, None] = {}
        self._untold: dict[str, dict[str, Any]] = {}

    @property
    def willing(self) -> bool:
        """Would it take an offer now?"""
        return bool(self.hosts) and not self._busy

    @property
    def untold(self) -> list[dict[str, Any]]:
        """Results that the control plane has not acknowledged."""
        with self._lock:
            return list(self._untold.values())

    def about(self) -> dict[str, Any]:
        """What a batch says of it; nothing where the code lists no host."""
        if not self.hosts:
            return {}
        return {"probe_hosts": list(self.hosts) if self.willing else [], "probes": self.untold}

    def acknowledged(self, told: Iterable[Mapping[str, Any]]) -> None:
        """These results have arrived."""
        with self._lock:
            for one in told:
                self._untold.pop(str(one.get("id")), None)

    def take(self, offers: Any, done: Any) -> None:
        """Begin the first offer that fits and is new; `done` is called, on another thread, once its result is there."""
        for told in offers if isinstance(offers, list) and self.hosts else ():
            try:
                offer = Offer.read(told, self.hosts)
            except Unfit as unfit:
                self.problem = str(unfit)
                continue
            if self._may_begin(offer):
                self._begin(offer, done)
                return

    def _may_begin(self, offer: Offer) -> bool:
        with self._lock:
            if self._busy or offer.id in self._begun:
                return False
            self._busy = True
            self._begun[offer.id] = None
            while len(self._begun) > KEPT_IDS:
                self._begun.pop(next(iter(self._begun)))
            return True

    def _begin(self, offer: Offer, done: Any) -> None:
        """On its own thread; where the process can have no further one, the lease runs out."""
        try:
            threading.Thread(target=self._ask, args=(offer, done), name="recloser-probe", daemon=True).start()
        except RuntimeError:
            self._busy, self.problem = False, "there is no thread to probe with"

    def _ask(self, offer: Offer, done: Any) -> None:
        from recloser.probing import asked  # what has a socket is loaded by those who use it

        try:
            result = asked(offer)
            with self._lock:
                self._untold[offer.id] = {"id": offer.id, "generation": offer.generation, **result}
        finally:
            self._busy = False
            done()
