"""Where evidence belongs that an agent sent before it had heard its first config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from controlplane.services.ingest.names import Names
from controlplane.services.ingest.wire import Batch, Observation, Trip

T = TypeVar("T", Observation, Trip)


def at_home(batch: Batch, names: Names) -> Batch:
    """Without a config an agent takes a tool for its own dependency: what operators know of the tool wins."""
    entries: list[Observation | Trip] = [*batch.observations, *batch.trips]
    if not any(_strays(each, names) for each in entries):
        return batch
    observations = [home for each in batch.observations for home in _homes(each, names)]
    trips = [home for each in batch.trips for home in _homes(each, names, most=1)]
    return msgspec.structs.replace(batch, observations=observations, trips=trips)


def _strays(each: Observation | Trip, names: Names) -> bool:
    known = names.tools.get(each.tool or "")
    alone = known is None or not known.dependencies or each.tool in known.dependencies
    return each.dependency == each.tool and not alone


def _homes(each: T, names: Names, most: int | None = None) -> Iterator[T]:
    """The entry itself, or one for each dependency behind the tool (a trip keeps its id, so it has one)."""
    if not _strays(each, names):
        yield each
        return
    assert each.tool
    for dependency in sorted(names.tools[each.tool].dependencies)[:most]:
        yield msgspec.structs.replace(each, dependency=dependency)
