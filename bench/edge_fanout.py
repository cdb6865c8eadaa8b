"""Time from the deciding batch to the change seen by 1,000 connected agents, beside a bare ASGI fan-out.

    python -m bench.edge_fanout [--streams 1000] [--rounds 7]

The clock starts as the batch that completes the evidence is sent, and stops at each stream as its delta arrives:
decode, commit, count, judge, commit, publish, read and tell lie between. The bare application writes a POST's body to
every stream at once. `settle_s` is 0: otherwise half a second is waited on purpose.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

from bench import edge_stage
from bench.edge_stage import Agent, Caller

PATIENCE_S = 30.0
EVENT = (
    b'event: delta\ndata: {"epoch":"e1","previous":1,"version":2,"now":1790000000.0,"circuits":{"search-api":{}}}\n\n'
)


class Stream(asyncio.Protocol):
    """One agent's stream: when an event last came that it waits for."""

    def __init__(self) -> None:
        self._tail = b""
        self._needle = b""
        self.opened = asyncio.get_running_loop().create_future()
        self.heard: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's: it is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def begin(self, path: str) -> None:
        """Ask for the stream."""
        self._transport.write(edge_stage.request("GET", path))

    def await_event(self, needle: bytes) -> None:
        """From now on, wait for an event that holds this."""
        self._needle, self._tail = needle, b""
        self.heard = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Asyncio's: a part of the stream has come."""
        if not self.opened.done():
            self.opened.set_result(None)
        found = self._needle and self._needle in self._tail + data
        self._tail = data[-200:]
        if found and not self.heard.done():
            self.heard.set_result(time.perf_counter())

    def close(self) -> None:
        """Hang up."""
        self._transport.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * asked.streams + 200), hard))
    with edge_stage.servers():
        edge_stage.cast()
        edge_stage.publish(settle_s=0, min_workers=1, min_calls=5)
        with (
            edge_stage.serving("controlplane.asgi:application") as edge,
            edge_stage.serving("bench.edge_bare:fanout") as bare,
        ):
            asyncio.run(_measure(edge, bare, asked))


async def _measure(edge: int, bare: int, asked: argparse.Namespace) -> None:
    figures: dict[str, list[list[float]]] = {"bare ASGI": [], "edge": []}
    listening = {
        "bare ASGI": await _connect(bare, "/stream", asked.streams),
        "edge": await _connect(edge, "/agent/v1/stream", asked.streams),
    }
    deciding = {"bare ASGI": await _poster(bare), "edge": await _decider(edge)}
    for number in range(asked.rounds + 1):
        for name, streams in listening.items():
            seen = await _round(streams, deciding[name], b"event: delta" if name == "bare ASGI" else b'"state":"open"')
            if number:  # the first one warms
                figures[name].append(seen)
        await _close_again(listening["edge"])
    _tell(figures, asked)
    for streams in listening.values():
        for stream in streams:
            stream.close()


async def _connect(port: int, path: str, number: int) -> list[Stream]:
    began = time.perf_counter()
    streams = []
    for _ in range(number):
        _, stream = await asyncio.get_running_loop().create_connection(Stream, "127.0.0.1", port)
        stream.begin(path)
        streams.append(stream)
    await asyncio.wait_for(asyncio.gather(*[stream.opened for stream in streams]), PATIENCE_S)
    print(f"{number} streams of {path} opened in {time.perf_counter() - began:.2f} s")
    return streams


async def _poster(port: int) -> Callable[[], Awaitable[object]]:
    caller = await Caller.to(port)
    request = edge_stage.request("POST", "/", EVENT)
    return lambda: caller.ask(request)


async def _decider(port: int) -> Callable[[], Awaitable[object]]:
    """Sends a batch of failures of the circuit's present generation."""
    caller, agent = await Caller.to(port), Agent(0, {"timeout": 20}, 20)
    generation = 0

    async def decide() -> None:
        nonlocal generation
        await caller.ask(agent.batch(generation))
        generation += 2  # opened by this, closed by hand

    return decide


async def _round(streams: Sequence[Stream], act: Callable[[], Awaitable[object]], needle: bytes) -> list[float]:
    for stream in streams:
        stream.await_event(needle)
    await asyncio.sleep(0.3)  # a poll or a hint just before would be waited for; the rounds are to be alike
    began = time.perf_counter()
    answered = asyncio.ensure_future(act())
    seen = await asyncio.wait_for(asyncio.gather(*[stream.heard for stream in streams]), PATIENCE_S)
    await answered
    return [at - began for at in seen]


async def _close_again(streams: Sequence[Stream]) -> None:
    for stream in streams:
        stream.await_event(b'"state":"closed"')
    await asyncio.to_thread(_force_close)
    await asyncio.wait_for(asyncio.gather(*[stream.heard for stream in streams]), PATIENCE_S)


def _force_close() -> None:
    from django.db import connections

    from controlplane import clock
    from controlplane.models import Dependency
    from controlplane.services import circuits

    dependency = Dependency.objects.get(slug="search-api")
    circuits.force_close(dependency_id=dependency.pk, actor="bench", reason="again", now=clock.now())
    connections.close_all()


def _tell(figures: dict[str, list[list[float]]], asked: argparse.Namespace) -> None:
    print(f"\na change seen by {asked.streams} streams (median of {asked.rounds} rounds)")
    for name, rounds in figures.items():
        print(f"  {name:<12}" + "".join(f"  {label} {_figure(rounds, at):7.1f} ms" for label, at in _POINTS))
    ratios = [f"{label} x{_ratio(figures, at):.2f}" for label, at in _POINTS]
    print(f"  edge beside bare ASGI: {', '.join(ratios)}")


_POINTS = (("p50", 0.5), ("p99", 0.99))


def _figure(rounds: list[list[float]], at: float) -> float:
    return statistics.median(_quantile(each, at) for each in rounds) * 1000


def _ratio(figures: dict[str, list[list[float]]], at: float) -> float:
    pairs = zip(figures["edge"], figures["bare ASGI"], strict=True)
    return statistics.median(_quantile(one, at) / _quantile(other, at) for one, other in pairs)


def _quantile(values: list[float], at: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * at))]


if __name__ == "__main__":
    main()
