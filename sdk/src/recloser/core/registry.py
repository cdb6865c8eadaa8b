"""A bounded table of breakers: a flood of keys pushes out what is at rest, never what is open or being tested.

For whoever keeps breakers by keys that a caller may invent (case B21): a worker's own breakers, an adapter or a proxy
with one breaker a host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """At most `limit` entries, the least recently used at the front. A key that was let go starts afresh."""

    __slots__ = ("_at_rest", "_entries", "limit")

    def __init__(self, *, at_rest: Callable[[T], bool], limit: int = 500) -> None:
        """`at_rest` tells whether an entry may be let go: a closed circuit that nobody suspects or holds."""
        self._at_rest = at_rest
        self._entries: dict[str, T] = {}
        self.limit = limit

    def get(self, key: str) -> T | None:
        """The entry of a key, if there is one; this is no use of it."""
        return self._entries.get(key)

    def of(self, key: str, make: Callable[[], T]) -> T | None:
        """The entry of a key, made if there is none; None where everything kept is open and there is no room."""
        entry = self._entries.pop(key, None)
        if entry is None:
            if not self._room():
                return None
            entry = make()
        self._entries[key] = entry
        return entry

    def clear(self) -> None:
        """Let everything go."""
        self._entries.clear()

    def _room(self) -> bool:
        if len(self._entries) < self.limit:
            return True
        idle = next((key for key, entry in self._entries.items() if self._at_rest(entry)), None)
        if idle is None:
            return False
        del self._entries[idle]
        return True

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter(list(self._entries.items()))
