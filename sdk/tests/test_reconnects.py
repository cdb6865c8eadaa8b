"""C04 with the link itself: 2,000 of them with their real timers, on one clock that moves from timer to timer."""

from __future__ import annotations

import heapq
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from recloser import link as linking
from recloser.cache import DocumentCache
from recloser.config_sync import Documents
from recloser.errors import Unreachable
from recloser.link import Link, Pace
from recloser.outbox import Outbox
from recloser.transport import Answer

FLEET, LOST_AT, BACK_AT, END = 2000, 1000.0, 1005.0, 1065.0
PACE = Pace(silence_s=3600.0)
"""As it is by itself; that heartbeats come is taken as read."""
CIRCUITS = {"format": 1, "epoch": "e1", "version": 1, "complete": True, "now": 0.0, "circuits": {}}


class World:
    """The clock, and a control plane that is away for five seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept_s = 0.0
        self.streams: Counter[int] = Counter()
        self.back: list[float] = []

    @property
    def away(self) -> bool:
        return LOST_AT <= self.now < BACK_AT

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def readable(self, reader: Any, stream: Ear | None, timeout_s: float) -> list[Any]:
        """Nothing is waited for: the world moves on to the next link's timer; what a stream says is there at once."""
        self.slept_s = timeout_s
        return [stream] if stream is not None and (stream.news or self.now >= LOST_AT > stream.since) else []


class Ear:
    """One stream: the circuits at connect, and its end when the control plane goes."""

    def __init__(self, world: World) -> None:
        self.world, self.since, self.news = world, world.now, True

    def events(self) -> Iterator[tuple[str, str]]:
        if self.world.now >= LOST_AT > self.since:
            raise Unreachable("the stream ended")
        self.news = False
        yield "circuits", json.dumps(CIRCUITS)

    def close(self) -> None:
        pass


class Wire:
    """A transport: counts who asks for the stream, and refuses all while the control plane is away."""

    def __init__(self, world: World) -> None:
        self.world = world

    def stream(self, path: str) -> Ear:
        self.world.streams[int(self.world.now)] += self.world.now >= LOST_AT
        self._reach()
        if self.world.now >= BACK_AT:
            self.world.back.append(self.world.now)
        return Ear(self.world)

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        self._reach()
        return Answer(304, {}, b"")

    def post(self, path: str, body: Any, *, compress: bool = True) -> Answer:
        self._reach()
        told = {"ack": body["seq"], "repeat": False, "flush_s": 2.0, "config": None, "circuits": {}, "notes": []}
        return Answer(200, {}, json.dumps(told).encode())

    def close(self) -> None:
        pass

    def _reach(self) -> None:
        if self.world.away:
            raise Unreachable("no connection")


class Quiet:
    """A client in which nothing happens."""

    asks_for_probes = False

    def fold(self) -> None:
        pass

    def about(self) -> dict[str, Any]:
        return {"format": 1}

    def attended(self, told: Any, offers: Any) -> None:
        pass

    def wake_up(self) -> bool:
        return False


def _link(world: World) -> Link:
    wire: Any = Wire(world)
    link = Link(wire, Documents(), Outbox(), threading.RLock(), Quiet(), DocumentCache(None, url="", key=""), PACE)
    link._reader = object()  # type: ignore[assignment]
    link._stream_at = world.now
    return link


@pytest.mark.case("C04")
def test_no_second_carries_more_than_a_tenth_of_two_thousand_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(linking.log, "disabled", True)  # two thousand say that nobody answers
    monkeypatch.setattr(linking, "time", world)
    monkeypatch.setattr(linking, "_readable", world.readable)
    world.now = LOST_AT - 1.0
    links = [_link(world) for _ in range(FLEET)]
    due = [(world.now, number) for number in range(FLEET)]
    while due[0][0] < END:
        world.now, number = due[0]
        links[number]._turn()
        at = world.now + max(world.slept_s, 0.001)
        heapq.heapreplace(due, (min(at, LOST_AT) if world.now < LOST_AT else at, number))

    assert len(world.back) == FLEET
    assert all(link.feed == "live" for link in links)
    assert max(world.streams.values()) <= FLEET // 10
    assert max(world.back) <= LOST_AT + 60.0
