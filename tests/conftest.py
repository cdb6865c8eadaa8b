"""Fixtures that every test may use."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane import clock

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def frozen_clock():
    """Time stands still at noon; `frozen_clock.advance(5)` moves it."""
    with clock.frozen(NOON) as hand:
        yield hand
