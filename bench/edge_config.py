"""Config answers of 304 a second of one edge process, beside a bare ASGI application that always answers 304.

    python -m bench.edge_config [--seconds 3] [--rounds 5] [--connections 64]

The edge knows the key, looks at the version in Postgres (one look serves everyone who asked before it began) and
compares the ETag; the bare application does nothing.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from bench import edge_stage
from bench.edge_stage import Caller


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    asked = parser.parse_args()
    with edge_stage.servers():
        edge_stage.cast()
        with (
            edge_stage.serving("controlplane.asgi:application") as edge,
            edge_stage.serving("bench.edge_bare:config") as bare,
        ):
            asyncio.run(_measure(edge, bare, asked))


async def _measure(edge: int, bare: int, asked: argparse.Namespace) -> None:
    contenders = {"bare ASGI": await _contender(bare, asked), "edge": await _contender(edge, asked)}
    await edge_stage.in_turn(1, contenders)  # warm
    figures = await edge_stage.in_turn(asked.rounds, contenders)
    edge_stage.told(f"config, not modified, {asked.connections} connections", figures, "/s", "bare ASGI")


async def _contender(port: int, asked: argparse.Namespace) -> Callable[[], Awaitable[float]]:
    callers = [await Caller.to(port) for _ in range(asked.connections)]
    etag = await _etag(callers[0])
    request = edge_stage.request("GET", "/agent/v1/config", if_none_match=etag)
    return lambda: edge_stage.rate(callers, [lambda: request] * len(callers), asked.seconds, 304)


async def _etag(caller: Caller) -> str:
    answered = await caller.ask(edge_stage.request("GET", "/agent/v1/config"))
    return answered.header(b"etag")


if __name__ == "__main__":
    main()
