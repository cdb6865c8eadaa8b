"""Fixtures: a scripted control plane on a loopback port, and clients that talk to it fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recloser import Client
from recloser.testing import FAST, FakeControlPlane, ToolFailure


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("URL", "KEY", "INSTANCE", "ENVIRONMENT", "CACHE_DIR", "OVERRIDE"):
        monkeypatch.delenv(f"RECLOSER_{name}", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home-cache"))


@pytest.fixture
def plane() -> Iterator[FakeControlPlane]:
    with FakeControlPlane() as plane:
        yield plane


@pytest.fixture
def connect(plane: FakeControlPlane, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Make clients of the plane; they are closed at the end."""
    made: list[Client] = []

    def make(**options: Any) -> Client:
        settings: dict[str, Any] = {
            "instance": "pod-1",
            "cache_dir": tmp_path / "cache",
            "pace": FAST,
            "timeout_s": 2.0,
        }
        client = Client(plane.url, plane.key, **(settings | options))
        made.append(client)
        return client

    yield make
    for client in made:
        client.close(0.5)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Client]:
    """A client without a control plane."""
    client = Client(cache_dir=False)
    yield client
    client.close()


def until(holds: Callable[[], Any], timeout_s: float = 5.0) -> Any:
    """Wait until something holds; what it returned, or False after the deadline."""
    end = time.monotonic() + timeout_s
    while not (found := holds()):
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return found


def failing(**_: Any) -> Any:
    raise ToolFailure()


def working(**_: Any) -> str:
    return "found"
