"""The pytest plugin `recloser`: fixtures for the tests of agents.

A module of its own, beside the package: pytest loads it in every session, and a session that asks for no fixture must
not pay for the SDK, nor find it imported before its own coverage began.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from recloser import Client
    from recloser.testing import Clock, FakeControlPlane


@pytest.fixture
def recloser_plane(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeControlPlane]:
    """A control plane of this test's own; RECLOSER_URL and RECLOSER_KEY name it, so the agent under test finds it."""
    from recloser.testing import FakeControlPlane

    with FakeControlPlane() as plane:
        for name in ("INSTANCE", "ENVIRONMENT", "OVERRIDE"):
            monkeypatch.delenv(f"RECLOSER_{name}", raising=False)
        monkeypatch.setenv("RECLOSER_URL", plane.url)
        monkeypatch.setenv("RECLOSER_KEY", plane.key)
        monkeypatch.setenv("RECLOSER_CACHE_DIR", plane.folder)
        yield plane


@pytest.fixture
def recloser_client(recloser_plane: FakeControlPlane) -> Client:
    """A real client of that control plane, connected and up to date."""
    return recloser_plane.client()


@pytest.fixture
def recloser_clock() -> Clock:
    """Moves the SDK's time on: `recloser_clock.advance(30)`."""
    from recloser.testing import Clock

    return Clock()
