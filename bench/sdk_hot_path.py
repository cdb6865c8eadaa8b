"""What one guarded call costs, beside other breakers: closed and rejected, sync and async, hashing on and off.

    python -m bench.sdk_hot_path [--calls 10000] [--rounds 25] [--memory-calls 1000000]

Every contender is measured once a round, in turn, so that a noisy moment hits all of them alike; the best round counts,
in processor time.
Ours tells a control plane that is away: what it counts is folded into the outbox within the time measured.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "sdk" / "src"))

from recloser import Client
from recloser.core.policy import CircuitPolicy, resolve_run, to_wire
from recloser.core.types import SideEffectClass

from bench import sdk_others
from bench.sdk_tools import (
    Timed,
    bare,
    bare_async,
    failing,
    swallowed,
    swallowed_async,
    timed,
    timed_async,
)

NOBODY = "http://127.0.0.1:9"
KEY = "rcl_bench_key"
LEAST = 2_100
"""More different calls than a run remembers, so that none is a repetition."""
READY = {"query": "acme", "page": 3}


# -- by hand


def by_hand() -> dict[str, dict[str, Timed]]:
    """The least that anybody would write."""

    def raising(query: str, page: int) -> str:
        raise RuntimeError

    async def raising_async(query: str, page: int) -> str:
        raise RuntimeError

    windows: dict[str, deque[tuple[float, bool]]] = {}
    lock = threading.Lock()

    def window(k: int) -> str:
        seen = windows.setdefault("search", deque(maxlen=1000))
        result = bare("acme", k)
        now = time.monotonic()
        seen.append((now, True))
        while seen and seen[0][0] < now - 60.0:
            seen.popleft()
        return result

    def locked(k: int) -> str:
        result = bare("acme", k)
        now = time.monotonic()
        with lock:
            seen = windows.setdefault("search", deque(maxlen=1000))
            seen.append((now, True))
            while seen and seen[0][0] < now - 60.0:
                seen.popleft()
        return result

    return {
        "bare call": {"closed": timed(lambda k: bare("acme", k)), "closed async": timed_async(_await_bare)},
        "raise and catch": {
            "rejected": timed(swallowed(raising, RuntimeError)),
            "rejected async": timed_async(swallowed_async(raising_async, RuntimeError)),
        },
        "dict and deque": {"closed": timed(window)},
        "dict, deque, lock": {"closed": timed(locked)},
    }


async def _await_bare(k: int) -> str:
    return await bare_async("acme", k)


# -- ours


def recloser(hashing: bool) -> dict[str, Timed]:
    """`run.call` and `run.acall`: admission, two clocks, the count, and its fold into the outbox.

    A loop has the arguments of a call as a mapping already: one that is at hand. Where calls are compared each has its
    own, made within the time measured.
    """
    quiet, broken = _client(hashing).run(), _client(hashing).run()
    for k in range(8):
        broken.step()
        broken.call("search", {"query": "acme", "page": k}, failing)
    assert broken.call("search", READY, bare)["status"] == "unavailable"
    for run in (quiet, broken):
        run.step()
    rejected = {
        "rejected": timed(lambda k: broken.call("search", READY, bare)),
        "rejected async": timed_async(lambda k: broken.acall("search", READY, bare_async)),
    }
    if hashing:
        return rejected | {
            "closed": timed(lambda k: quiet.call("search", {"query": "acme", "page": k}, bare)),
            "closed async": timed_async(lambda k: quiet.acall("search", {"query": "acme", "page": k}, bare_async)),
        }
    return rejected | {
        "closed": timed(lambda k: quiet.call("search", READY, bare)),
        "closed async": timed_async(lambda k: quiet.acall("search", READY, bare_async)),
    }


LIMITED_SHARE = 20
"""A call with a time limit of its own is slow enough to be asked for a share of the calls."""


def limited(calls: int, rounds: int) -> dict[str, float]:
    """Nanoseconds a call with a time limit of its own: a thread where it is sync, `asyncio.timeout` where it is not."""
    run, n = _client(False).run(), max(100, calls // LIMITED_SHARE)
    run.step()
    ways = {
        "sync": timed(lambda k: run.call("search", READY, bare, call_timeout=30.0)),
        "async": timed_async(lambda k: run.acall("search", READY, bare_async, call_timeout=30.0)),
    }
    return {way: min(each(n) for _ in range(rounds)) / n * 1e9 for way, each in ways.items()}


def _client(hashing: bool) -> Client:
    return Client(NOBODY, KEY, cache_dir=False, bootstrap=None if hashing else without_hashing())


def without_hashing() -> dict[str, Any]:
    """A config under which nothing is compared, so nothing is hashed."""
    policy = to_wire(resolve_run([], side_effect_class=SideEffectClass.READ_ONLY).policy)
    policy |= {"identical_calls": None, "oscillation_cycles": None, "no_progress_steps": None, "retry_ambiguous": True}
    return {
        "format": 1, "epoch": "bench", "version": 1, "environment": "prod", "agent": "bench", "now": 0.0,
        "complete": True, "circuit_policies": [to_wire(CircuitPolicy())], "run_policies": [policy],
        "dependencies": {}, "tools": {}, "default_circuit_policy": 0, "default_run_policy": 0,
    }  # fmt: skip


# -- the table

COLUMNS = ("closed", "rejected", "closed async", "rejected async")
Figures = dict[str, dict[str, float]]


def contenders() -> tuple[dict[str, dict[str, Timed]], list[str]]:
    """Everything that can be measured here, and what is missing."""
    others, missing = sdk_others.found()
    found = by_hand() | others
    found["recloser"] = recloser(hashing=False)
    found["recloser, hashing"] = recloser(hashing=True)
    return found, missing


def measure(found: dict[str, dict[str, Timed]], calls: int, rounds: int) -> Figures:
    """Nanoseconds a call: the best of all rounds."""
    best: Figures = {name: {} for name in found}
    for _ in range(rounds):
        gc.collect()
        for name, ways in found.items():
            for way, run in ways.items():
                each = run(calls) / calls * 1e9
                best[name][way] = min(each, best[name].get(way, each))
    return best


def growth(calls: int, hashing: bool) -> int:
    """Memory blocks that further calls leave behind, once a first tenth has filled what is bounded."""
    run = _client(hashing).run()
    first = _blocks_after(run, calls // 10)
    return _blocks_after(run, calls) - first


def _blocks_after(run: Any, calls: int) -> int:
    for k in range(calls):
        run.call("search", {"query": "acme", "page": k % 5000}, bare)
    run._client.fold()
    gc.collect()
    return sys.getallocatedblocks()


def print_table(figures: Figures) -> None:
    """Nanoseconds by contender and way."""
    print(f"{'ns a call':<22}" + "".join(f"{column:>16}" for column in COLUMNS))
    for name, ways in figures.items():
        cells = "".join(f"{ways[column]:>16,.0f}" if column in ways else f"{'-':>16}" for column in COLUMNS)
        print(f"{name:<22}{cells}")


GOALS = (
    ("closed", "recloser", 1.0),
    ("rejected", "recloser", 0.75),
    ("rejected", "recloser, hashing", 0.75),
    ("closed", "recloser, hashing", 6.0),
    ("closed async", "recloser", 1.0),
    ("rejected async", "recloser", 0.75),
    ("closed async", "recloser, hashing", 6.0),
)
"""At most so many times circuitbreaker's figure; the async ones are ours to watch, nobody set them."""


def print_ratios(figures: Figures) -> None:
    """Ours over circuitbreaker's, beside the goal."""
    for way, name, goal in GOALS:
        theirs, ours = figures["circuitbreaker"].get(way), figures[name].get(way)
        if ours is not None and theirs:
            verdict = "reached" if ours / theirs <= goal else "MISSED"
            print(f"{name + ', ' + way:<36}{ours / theirs:>6.2f} x circuitbreaker   goal {goal:.2f}   {verdict}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help=f"calls a round, at least {LEAST}")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--memory-calls", type=int, default=1_000_000, help="0 leaves the memory out")
    args = parser.parse_args()
    logging.getLogger("recloser").setLevel(logging.CRITICAL)
    args.calls = max(args.calls, LEAST)
    found, missing = contenders()
    print(f"Python {sys.version.split()[0]}, best of {args.rounds} rounds of {args.calls} calls")
    figures = measure(found, args.calls, args.rounds)
    print_table(figures)
    for name in missing:
        print(f"not measured: {name}")
    if "circuitbreaker" in figures:
        print_ratios(figures)
    dear = limited(args.calls, args.rounds)
    print(f"with a time limit of its own: sync {dear['sync']:,.0f} ns (a thread a call), async {dear['async']:,.0f} ns")
    if args.memory_calls:
        off, on = growth(args.memory_calls, False), growth(args.memory_calls, True)
        print(f"memory blocks left by {args.memory_calls:,} further calls: {off:+,}, hashing {on:+,}")


if __name__ == "__main__":
    main()
