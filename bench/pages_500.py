"""Server time of Board and Circuit with 500 circuits and an hour of observations, beside the empty database.

    python -m bench.pages_500 [--circuits 500] [--workers 3] [--every 10] [--times 15]

Through the whole of Django (middleware, session, templates) by its test client, in one process and one run; three
circuits are open and two runs in twenty degraded. Goals: Circuit at most twice, Board at most twice the empty one
with its cells kept from the page before (four times with none).
The empty pages are taken before the database is filled and again in turn with the full ones; of each page the best
counts, since a noisy moment makes any slower and none faster.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from bench import stage


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    stage.servers()
    from django.test import Client

    from controlplane import clock
    from tests import factories

    _as_served()
    now = clock.now()
    empty, full = stage.Fleet("empty", now), stage.Fleet("full", now, arguments.workers)
    empty.circuits(1)
    bare = stage.Fleet("bare", now)
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(factories.person("ann", factories.Role.VIEWER), "controlplane.permissions.RoleBackend")
    empty_pages = {
        "board, empty": f"/?environment={bare.environment.slug}",
        "circuit, empty": "/circuits/empty/service-000/",
    }
    full_pages = {
        "board, full": "/?environment=full",
        "circuit, full": "/circuits/full/service-100/",
        "open circuit, full": "/circuits/full/service-000/",
    }
    before = _measure(client, empty_pages, arguments.times)
    full.circuits(arguments.circuits)
    rows = full.observations(3600.0, arguments.every)
    full.runs(2000, 3600.0)
    _open(full, 3)
    _shift(full)
    figures = _measure(client, empty_pages | full_pages, arguments.times)
    figures |= {name: min(before[name], figures[name]) for name in empty_pages}
    _report(figures, arguments.circuits, rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--circuits", type=int, default=500)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two rows of a worker and circuit")
    parser.add_argument("--times", type=int, default=15)
    return parser.parse_args()


def _as_served() -> None:
    """Templates are rendered as for people: a test environment would copy the context of each."""
    from django.conf import settings

    settings.ALLOWED_HOSTS.append("testserver")
    settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"


def _open(fleet: stage.Fleet, count: int) -> None:
    from datetime import timedelta

    from controlplane.services import circuits

    for each in fleet.dependencies[:count]:
        until = fleet.now + timedelta(minutes=5)
        circuits.hold_open(dependency_id=each.pk, actor="otto", reason="bench", now=fleet.now, until=until)
        circuits.release(dependency_id=each.pk, actor="otto", reason="bench", now=fleet.now)


def _shift(fleet: stage.Fleet) -> None:
    """Filling took a while: the hour ends now, sessions live, everything is rolled up."""
    from django.db import connection

    from controlplane.services import rollups

    rollups.roll_up(budget_s=300.0)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE controlplane_session SET last_seen_at = clock_timestamp()")
        cursor.execute("VACUUM ANALYZE")


def _measure(client: Any, pages: dict[str, str], times: int) -> dict[str, float]:
    """Milliseconds of the best of each, taken in turn, after a round that warms up."""
    rounds = [{name: _once(client, path) for name, path in pages.items()} for _ in range(times + 1)][1:]
    return {name: min(each[name] for each in rounds) for name in pages}


def _once(client: Any, path: str) -> float:
    begun = time.perf_counter()
    answer = client.get(path)
    took = (time.perf_counter() - begun) * 1000
    assert answer.status_code == 200, (path, answer.status_code)
    return took


def _report(figures: dict[str, float], circuits: int, rows: int) -> None:
    print(f"{circuits} circuits, {rows} observations in an hour; milliseconds of server time, best")
    for name, took in figures.items():
        print(f"  {name:20} {took:8.1f}")
    print(f"  board,   full : empty  {figures['board, full'] / figures['board, empty']:6.2f}   (goal: at most 2)")
    print(f"  circuit, full : empty  {figures['circuit, full'] / figures['circuit, empty']:6.2f}   (goal: at most 2)")


if __name__ == "__main__":
    main()
