"""Processor time of a change told to 200 open dashboards, beside a bare ASGI fan-out to as many streams.

    python -m bench.pages_live [--streams 200] [--changes 100]

Both are served by the same uvicorn with the same options, hold as many streams, and write one event of the same size to
each of them at every change, as far apart. What each does:

- The bare application takes a POST and writes its body to every stream. It knows nobody and has no heartbeat.
- Ours hears by Redis of a transition that another process has committed, reads the versions from Postgres and tells the
  pages. It polls once a second, beats, and looks after the sign-ins as always; each stream is another person's, and
  the changes last for longer than `CHECK_S`, so that a look at all sign-ins is among what is counted.

Counted is what the serving process worked (all its threads, as Linux tells it) from a change until the last stream has
heard of it, and between changes. Goal: at most twice.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from bench import edge_stage
from bench.edge_fanout import PATIENCE_S, Stream

APART_S = 0.3
"""A page is told at most four times a second."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--changes", type=int, default=100)
    asked = parser.parse_args()
    with edge_stage.servers():
        edge_stage.cast()
        cookies = _signed_in(asked.streams)
        with (
            edge_stage.serving("controlplane.asgi:application") as ours,
            edge_stage.serving("bench.edge_bare:fanout") as bare,
        ):
            worked = asyncio.run(_measure({"bare ASGI": bare, "dashboards": ours}, cookies, asked))
    print(f"processor time of one change told to {asked.streams} streams ({asked.changes} changes)")
    for name, ms in worked.items():
        print(f"  {name:<12} {ms:7.2f} ms")
    print(f"  dashboards beside bare ASGI: x{worked['dashboards'] / worked['bare ASGI']:.2f}   (goal: at most 2)")


def _signed_in(number: int) -> list[str]:
    """A session each of so many people: nothing is spared by one person's having many pages."""
    from django.contrib.sessions.backends.db import SessionStore
    from django.db import connections
    from django.test import Client

    from tests import factories

    cookies = []
    for place in range(number):
        client = Client()
        client.force_login(
            factories.person(f"ann{place}", factories.Role.VIEWER), "controlplane.permissions.RoleBackend"
        )
        assert isinstance(client.session, SessionStore)
        cookies.append(f"sessionid={client.session.session_key}")
    connections.close_all()
    return cookies


async def _measure(ports: dict[str, int], cookies: Sequence[str], asked: argparse.Namespace) -> dict[str, float]:
    streams = {
        "bare ASGI": await _connect(ports["bare ASGI"], "/stream", [""] * asked.streams),
        "dashboards": await _connect(ports["dashboards"], "/live?environment=prod", cookies),
    }
    caller = await edge_stage.Caller.to(ports["bare ASGI"])
    post = edge_stage.request("POST", "/", b'event: changed\ndata: {"version":2,"activity":0}\n\n')
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "bare ASGI": lambda: caller.ask(post),
        "dashboards": lambda: asyncio.to_thread(_change),
    }
    worked = {}
    for name, these in streams.items():
        process = _serving(ports[name])
        await _told(these, acts[name], 3)
        before = _worked_ms(process)
        await _told(these, acts[name], asked.changes)
        worked[name] = (_worked_ms(process) - before) / asked.changes
    for stream in (one for these in streams.values() for one in these):
        stream.close()
    return worked


class Page(Stream):
    """A dashboard's stream."""

    def begin_as(self, path: str, cookie: str) -> None:
        """Ask for it as a signed-in page does."""
        self._transport.write(
            edge_stage.request("GET", path, cookie=cookie) if cookie else edge_stage.request("GET", path)
        )


async def _connect(port: int, path: str, cookies: Sequence[str]) -> list[Page]:
    pages = []
    for cookie in cookies:
        _, page = await asyncio.get_running_loop().create_connection(Page, "127.0.0.1", port)
        page.begin_as(path, cookie)
        pages.append(page)
    await asyncio.wait_for(asyncio.gather(*[page.opened for page in pages]), PATIENCE_S)
    return pages


async def _told(pages: Sequence[Page], act: Callable[[], Awaitable[object]], changes: int) -> None:
    for _ in range(changes):
        await asyncio.sleep(APART_S)
        for page in pages:
            page.await_event(b"event: changed")
        acting = asyncio.ensure_future(act())
        await asyncio.wait_for(asyncio.gather(*[page.heard for page in pages]), PATIENCE_S)
        await acting


_opened = False


def _change() -> None:
    """Hold the circuit open, and close it with the next."""
    global _opened
    from datetime import timedelta

    from django.db import connections

    from controlplane import clock
    from controlplane.models import Dependency
    from controlplane.services import circuits

    now, dependency = clock.now(), Dependency.objects.get(slug="search-api")
    if _opened:
        circuits.force_close(dependency_id=dependency.pk, actor="bench", reason="again", now=now)
    else:
        until = now + timedelta(minutes=5)
        circuits.hold_open(dependency_id=dependency.pk, actor="bench", reason="again", now=now, until=until)
    _opened = not _opened
    connections.close_all()


def _serving(port: int) -> Path:
    """The threads of the process that was started with this port."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and _is_ours(each, port):
            return each / "task"
    raise SystemExit("this bench reads processor times as Linux tells them")


def _is_ours(process: Path, port: int) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return str(port).encode() in words and parent == os.getpid()


def _worked_ms(threads: Path) -> float:
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads.iterdir()) / 1e6


if __name__ == "__main__":
    main()
