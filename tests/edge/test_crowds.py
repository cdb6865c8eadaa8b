"""Many streams on one real process: all of them hear, all of them hear the end, and one that does not read is cut."""

import asyncio
import resource
import socket
import time
from datetime import timedelta

import pytest

from controlplane import clock
from controlplane.delivery import hub, publish
from controlplane.models import Circuit, Dependency, ProcessBeat
from controlplane.services import circuits, tools
from tests.edge import harness

pytestmark = pytest.mark.e2e

CROWD = 2000
PATIENCE_S = 30


@pytest.fixture
def dependency(prod):
    return tools.ensure_dependency(environment=prod, slug="search-api", actor="ada", now=clock.now())


@pytest.fixture
def many_files():
    """Both ends of every connection are this machine's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3 * CROWD:
        pytest.skip(f"TOO FEW FILES: only {hard} may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3 * CROWD), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _hold_open(dependency):
    now = clock.now()
    until = now + timedelta(minutes=5)
    circuits.hold_open(dependency_id=dependency.pk, actor="otto", reason="drill", now=now, until=until)


class Ear(asyncio.Protocol):
    """One agent's end of a stream."""

    def __init__(self):
        self.said = b""
        self.over = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()

    @classmethod
    async def at(cls, port, token):
        transport, ear = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        transport.write(
            f"GET /agent/v1/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n".encode()
        )
        return ear

    def connection_made(self, transport):
        self.hang_up = transport.close

    def data_received(self, data):
        self.said += data
        self._news.set()

    def connection_lost(self, problem):
        self.over.set_result(time.monotonic())
        self._news.set()

    async def hears(self, what):
        while what not in self.said:
            assert not self.over.done(), self.said[-300:]
            self._news.clear()
            await self._news.wait()


async def _crowd(port, token):
    async with asyncio.timeout(PATIENCE_S):
        ears = await asyncio.gather(*[Ear.at(port, token) for _ in range(CROWD)])
        await asyncio.gather(*[ear.hears(b"event: config") for ear in ears])
    return ears


@pytest.mark.case("C04")
def test_two_thousand_that_come_at_once_all_hear_the_change_and_the_end_and_all_come_back(
    servers, key, dependency, many_files
):
    first, second = servers(2)

    async def lives():
        ears = await _crowd(first.port, key.token)
        await asyncio.to_thread(_hold_open, dependency)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*[ear.hears(b"event: delta") for ear in ears])
        ending = asyncio.create_task(asyncio.to_thread(first.terminate))
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*[ear.over for ear in ears])
        assert all(b"event: bye" in ear.said for ear in ears)
        took, _ = await ending
        back = await _crowd(second.port, key.token)
        assert all(b'"state":"open"' in ear.said for ear in back)
        for ear in back:
            ear.hang_up()
        await asyncio.gather(*[ear.over for ear in back])
        return took

    assert asyncio.run(lives()) < 10
    assert second.request("GET", "/healthz").status_code == 200


def test_who_does_not_read_is_cut_and_holds_up_nobody(servers, prod, key):
    """Its own end fills first, then the server's socket, then its queue: at that point the stream ends."""
    [server] = servers(1)
    _fill(prod)
    stuck = _deaf(server.port, key.token)
    reader = harness.Agent(server, key.token).stream()
    reader.next("circuits", within=20)
    harness.until(lambda: _streams() == 2, within=15, what="both streams")

    for number in range(2 * hub.QUEUED):
        publish.flush_asked(prod.pk, [f"api-{number}"], 200)
        assert reader.next("flush", within=5)["dependencies"] == [f"api-{number}"]

    harness.until(lambda: _streams() == 1, within=15, what="the cut")
    stuck.close()


def _deaf(port, token):
    """A stream that is asked for and never read."""
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect(("127.0.0.1", port))
    stuck.sendall(f"GET /agent/v1/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n".encode())
    return stuck


def _streams():
    return ProcessBeat.objects.get(kind="edge").detail["streams"]


def _fill(prod):
    """A document that no socket buffer holds."""
    now = clock.now()
    rows = [Dependency(environment=prod, slug=f"{'x' * 190}-{number}", created_at=now) for number in range(14_000)]
    made = Dependency.objects.bulk_create(rows)
    Circuit.objects.bulk_create([Circuit(environment=prod, dependency=each, generation=1) for each in made])
