"""How everyone reaches Redis: short time-outs, no hidden retries; Redis is an accelerator, so nobody waits for it."""

import functools

import redis
import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

ANSWER_S = 0.5
CONNECT_S = 0.3


@functools.cache
def blocking() -> redis.Redis:
    """The process's client for threads and tasks; safe over forks."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=ANSWER_S,
        socket_connect_timeout=CONNECT_S,
        retry=Retry(NoBackoff(), 0),
    )


def nonblocking(*, answer_s: float | None = ANSWER_S, connections: int = 16) -> redis.asyncio.Redis:
    """A client for one event loop; whoever asks for it closes it. No `answer_s`: for a subscription.

    When all connections are busy a command waits its turn, as long as it would for an answer.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=connections,
        timeout=ANSWER_S,
        socket_timeout=answer_s,
        socket_connect_timeout=CONNECT_S,
        retry=AsyncRetry(NoBackoff(), 0),
    )
    return redis.asyncio.Redis.from_pool(pool)
