"""Batches a second of one edge process, beside a bare ASGI application that does one equal INSERT and pipeline.

    python -m bench.edge_batch [--seconds 4] [--rounds 5] [--connections 32]

Two kinds of batch: all good, and every one failing. The policy only watches, so the circuit stays closed and has to be
judged all the while.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable

from bench import edge_stage
from bench.edge_stage import Agent, Caller

KINDS = {"good": ({"ok": 3}, 0), "failing": ({"ok": 1, "timeout": 2}, 2)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    asked = parser.parse_args()
    with edge_stage.servers():
        ids = json.dumps(dataclasses.asdict(edge_stage.cast()))
        edge_stage.publish(delivery="observe")
        with (
            edge_stage.serving("controlplane.asgi:application") as edge,
            edge_stage.serving("bench.edge_bare:batches", BENCH_IDS=ids) as bare,
        ):
            asyncio.run(_measure(edge, bare, asked))


async def _measure(edge: int, bare: int, asked: argparse.Namespace) -> None:
    for kind, (counts, streak) in KINDS.items():
        contenders = {
            "bare ASGI": await _contender(bare, counts, streak, asked),
            "edge": await _contender(edge, counts, streak, asked),
        }
        await edge_stage.in_turn(1, contenders)  # warm
        figures = await edge_stage.in_turn(asked.rounds, contenders)
        edge_stage.told(f"{kind} batches, {asked.connections} connections", figures, "/s", "bare ASGI")


async def _contender(
    port: int, counts: dict[str, int], streak: int, asked: argparse.Namespace
) -> Callable[[], Awaitable[float]]:
    callers = [await Caller.to(port) for _ in range(asked.connections)]
    agents = [Agent(number, counts, streak) for number in range(asked.connections)]
    return lambda: edge_stage.rate(callers, [agent.batch for agent in agents], asked.seconds, 200)


if __name__ == "__main__":
    main()
