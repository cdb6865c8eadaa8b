"""A few threads for Django's blocking work beside an event loop; a connection is never kept between two jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """A bounded pool of threads. Jobs wait their turn; each gives its database connection back."""

    def __init__(self, size: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=size, thread_name_prefix=name)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of `work`, done in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: _alone(work, *args, **kwargs))

    def close(self) -> None:
        """Take no more jobs; those that run may end, those that wait are dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _alone(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return work(*args, **kwargs)
    finally:
        connections.close_all()
