"""p95 of the server time of Board, Circuit, Trips and Runs in front of a month's history, beside empty ones.

    python -m bench.pages_scale [--circuits 500] [--trips 1000000] [--runs 1000000] [--times 60]

Through the whole of Django by its test client, compressed, in one process and one run, three circuits open. The empty
pages are taken before anything is stored and again in turn with the full ones; the lower p95 of the two counts. Goals:
twice; the Board four times, or twice with its cells kept from the page before (`board`; `board, all cells new` is the
first of a process, and so are lists with `all rows new`). A `refresh` is what an open page asks for.

Both the time on the clock and, since other work on the machine adds to that, the processor time of this process and its
Postgres backends are told.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import pages_500, seed, stage

EMPTY = {
    "board": "/?environment=bare",
    "circuit": "/circuits/one/service-000/",
    "trips": "/trips/?environment=bare",
    "runs": "/runs/?environment=bare",
}
FULL = {
    "board": "/?environment=full",
    "circuit": "/circuits/full/service-100/",
    "open circuit": "/circuits/full/service-000/",
    "trips": "/trips/?environment=full",
    "trips of a worker": "/trips/?environment=full&scope=worker&signal=no_progress",
    "runs": "/runs/?environment=full",
    "all runs": "/runs/?environment=full&show=all",
    "undisclosed runs": "/runs/?environment=full&show=undisclosed",
}
GOALS = {"board": 2.0, "board, all cells new": 4.0}

Ask = Callable[[], Any]


def main() -> None:
    """Fill, measure and print."""
    asked = _arguments()
    stage.servers()
    pages_500._as_served()
    client = _client()
    empty = {f"{name}, empty": _page(client, path) for name, path in _nothing().items()}
    before = _measure(empty, asked.times)
    _fill(asked)
    full = {name: _page(client, path) for name, path in FULL.items()} | _of_the_board(client) | _of_lists(client)
    new = _all_new(client)
    after = _measure(empty | full, asked.times) | _measure(new, asked.times)
    least = {name: {at: min(before[name][at], after[name][at]) for at in before[name]} for name in empty}
    _report({name: after[name] for name in full | new}, least)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--circuits", type=int, default=500)
    parser.add_argument("--trips", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=60)
    return parser.parse_args()


def _client() -> Any:
    from django.test import Client

    from tests import factories

    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(factories.person("ann", factories.Role.VIEWER), "controlplane.permissions.RoleBackend")
    return client


def _nothing() -> dict[str, str]:
    """An environment with nothing in it, and one with the one circuit that an empty circuit page needs."""
    from controlplane import clock

    stage.Fleet("bare", clock.now())
    stage.Fleet("one", clock.now()).circuits(1)
    return EMPTY


def _fill(asked: argparse.Namespace) -> None:
    from controlplane import clock

    fleet = stage.Fleet("full", clock.now())
    fleet.circuits(asked.circuits)
    seed.month(fleet, runs=asked.runs, trips=asked.trips)
    print(f"  {fleet.observations(3600.0, 10.0):>9,} observations")
    pages_500._open(fleet, 3)
    pages_500._shift(fleet)


def _page(client: Any, path: str, **headers: str) -> Ask:
    return lambda: client.get(path, headers=headers)


def _of_the_board(client: Any) -> dict[str, Ask]:
    """What a page asks for that has its cells."""
    text = gzip.decompress(client.get(FULL["board"]).content).decode()
    has = ",".join(re.findall(r'data-mark="(\w+)"', text))
    return {"board, refresh": _page(client, FULL["board"], **{"HX-Request": "true", "X-Recloser-Fleet": has})}


def _of_lists(client: Any) -> dict[str, Ask]:
    return {f"{name}, refresh": _page(client, FULL[name], **{"HX-Request": "true"}) for name in ("trips", "runs")}


def _all_new(client: Any) -> dict[str, Ask]:
    """The first pages of a process: nothing is kept from one before."""
    names = {"board": "board, all cells new", "trips": "trips, all rows new", "runs": "runs, all rows new"}
    return {name: _forgetful(client, FULL[page]) for page, name in names.items()}


def _forgetful(client: Any, path: str) -> Ask:
    from controlplane.selectors import fleet
    from dashboard import cells, rows

    def ask() -> Any:
        for kept in (cells._cell, fleet._decoded, rows._trip, rows._run):
            kept.cache_clear()
        return client.get(path)

    return ask


Took = dict[str, dict[str, float]]
"""By page: p50 and p95 on the clock, and p95 of processor time, in milliseconds."""


def _measure(pages: dict[str, Ask], times: int) -> Took:
    """All pages in turn, after two rounds that warm up."""
    backends = _backends()
    rounds = [{name: _once(ask, backends) for name, ask in pages.items()} for _ in range(times + 2)][2:]
    return {name: _quantiles([each[name] for each in rounds]) for name in pages}


def _quantiles(taken: list[tuple[float, float]]) -> dict[str, float]:
    clock, processor = ([each[place] for each in taken] for place in (0, 1))
    return {
        "p50": stage.percentile(clock, 0.5),
        "p95": stage.percentile(clock, 0.95),
        "cpu p95": stage.percentile(processor, 0.95),
    }


def _once(ask: Ask, backends: list[Path]) -> tuple[float, float]:
    gc.collect()  # what the page before left behind, none pays for another
    worked, begun = _worked_ms(backends), time.perf_counter()
    answer = ask()
    took = (time.perf_counter() - begun) * 1000
    assert answer.status_code == 200, answer.status_code
    return took, _worked_ms(backends) - worked


def _backends() -> list[Path]:
    """Where Linux tells how long this process's database connections have worked; nowhere else."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        told = [Path(f"/proc/{pid}/schedstat") for (pid,) in cursor.fetchall()]
    return [each for each in told if each.exists()]


def _worked_ms(backends: list[Path]) -> float:
    theirs = sum(int(each.read_text().split()[0]) for each in backends if each.exists())
    return time.process_time() * 1000 + theirs / 1e6


COLUMNS = ("p50", "p95", "cpu p95")


def _report(full: Took, empty: Took) -> None:
    print("milliseconds of server time beside the same page with nothing to show; ratios to it")
    print(
        f"  {'':21}" + "".join(f"{name:>10}" for name in (*COLUMNS, "(empty)", "(cpu)", "ratio", "of cpu")) + "  goal"
    )
    for name, took in full.items():
        least = empty[f"{_kind(name)}, empty"]
        figures = [*(took[at] for at in COLUMNS), least["p95"], least["cpu p95"]]
        ratios = [took[at] / least[at] for at in ("p95", "cpu p95")]
        told = "".join(f"{each:>10.1f}" for each in figures) + "".join(f"{each:>10.2f}" for each in ratios)
        print(f"  {name:21}{told}  {GOALS.get(name, 2.0):g}")


def _kind(page: str) -> str:
    return next(kind for kind in EMPTY if kind in page)


if __name__ == "__main__":
    main()
