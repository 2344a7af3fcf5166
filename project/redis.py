"""The Redis client factories. No keys and no Lua: those belong to one file each.

Three purposes, three databases on one server (`settings.REDIS_URLS`): emptying the
cache can never free a lock or lose a buffered fix.
"""

from typing import Any, Literal

import redis
import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

Purpose = Literal["broker", "cache", "jobs", "tracking"]

SOCKET_TIMEOUT_S = 2.0
MAX_CONNECTIONS = 64


def sync_client(purpose: Purpose, **overrides: Any) -> redis.Redis:
    """A client with its own pool, timeouts set and no retries behind the caller's back.

    `overrides` are keyword arguments of `redis.Redis.from_url`. Every call raises
    `redis.RedisError` when the server is away; nothing is swallowed.
    """
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT_S,
        "socket_connect_timeout": SOCKET_TIMEOUT_S,
        "health_check_interval": 25,
        "max_connections": MAX_CONNECTIONS,
        "retry": Retry(NoBackoff(), 0),
    }
    return redis.Redis.from_url(settings.REDIS_URLS[purpose], **(options | overrides))


def async_client(purpose: Purpose, **overrides: Any) -> redis.asyncio.Redis:
    """The same for asyncio; one client per event loop, never shared across loops.

    The pool waits for a free connection instead of raising: redis-py 8 raises
    MaxConnectionsError when a burst of sockets comes in.
    """
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT_S,
        "socket_connect_timeout": SOCKET_TIMEOUT_S,
        "health_check_interval": 25,
        "max_connections": MAX_CONNECTIONS,
        "timeout": 5,
        "retry": AsyncRetry(NoBackoff(), 0),
    }
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.REDIS_URLS[purpose], **(options | overrides)
    )
    return redis.asyncio.Redis.from_pool(pool)
