"""The Redis lock of a job: `SET lock:<job> <token> NX EX <ttl>`, extend, release.

Before it: `lease.hold` with a fresh token. After it: `claim`, which makes it true in
PostgreSQL. A lock that is lost or doubled here costs work, never correctness.
"""

import logging
import secrets
import time
from enum import IntEnum
from urllib.parse import urlsplit

import redis
from django.conf import settings

from project.redis import sync_client

logger = logging.getLogger(__name__)

PREFIX = "lock:"
SOCKET_TIMEOUT_S = 0.4
ACQUIRE_DEADLINE_S = 1.2
# Less than this is no time for a second try.
LEAST_TRY_S = 0.06

# SET … NX EX, but the token that is already ours counts as acquired: the reply to a
# successful SET may be lost, and a blind retry would then shut out everybody.
# pcall: somebody else's key may be of any type and still counts as held.
ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 1 end
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""

# EXPIRE sets the ttl; it never adds to what is left.
EXTEND = """
local token = redis.pcall('GET', KEYS[1])
if not token then return 0 end
if token ~= ARGV[1] then return -1 end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""

RELEASE = """
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class LockStoreDown(Exception):
    """Nobody may run now: Redis did not answer within the deadline."""


class Extension(IntEnum):
    FOREIGN = -1
    MISSING = 0
    EXTENDED = 1


def new_token() -> str:
    """128 random bits, fresh for every acquisition."""
    return secrets.token_hex(16)


def connect(timeout_seconds: float = SOCKET_TIMEOUT_S) -> redis.Redis:
    """A client of the lock database: short timeouts, no retries of its own.

    RESP2 and no CLIENT SETINFO: each would be one more reply to wait for.
    """
    return sync_client(
        "jobs",
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        health_check_interval=0,
        protocol=2,
        driver_info=None,
    )


def acquire(job_key: str, token: str, ttl_seconds: int) -> bool:
    """True when the lock is ours for `ttl_seconds`, False when another token has it.

    The same token is sent at most twice. Raises LockStoreDown within 1.2 s.
    """
    deadline = time.monotonic() + ACQUIRE_DEADLINE_S
    try:
        return _try(job_key, token, ttl_seconds, deadline)
    except redis.RedisError as error:
        if deadline - time.monotonic() < LEAST_TRY_S:
            raise LockStoreDown(describe(error)) from error
    try:
        return _try(job_key, token, ttl_seconds, deadline)
    except redis.RedisError as error:
        raise LockStoreDown(describe(error)) from error


def _try(job_key: str, token: str, ttl_seconds: int, deadline: float) -> bool:
    """A socket timeout counts per operation, so they share what is left."""
    left = deadline - time.monotonic()
    with connect(min(SOCKET_TIMEOUT_S, left / _operations())) as client:
        return acquire_with(client, job_key, token, ttl_seconds)


def _operations() -> int:
    """Waits of one try: connect, SELECT, EVAL; AUTH with a password; a TLS handshake."""
    parts = urlsplit(settings.REDIS_URLS["jobs"])
    return 3 + bool(parts.password) + (parts.scheme == "rediss")


def acquire_with(
    client: redis.Redis, job_key: str, token: str, ttl_seconds: int
) -> bool:
    """One try on a given client. Raises redis.RedisError."""
    _check_ttl(ttl_seconds)
    return bool(client.eval(ACQUIRE, 1, PREFIX + job_key, token, ttl_seconds) == 1)


def extend(
    client: redis.Redis, job_key: str, token: str, ttl_seconds: int
) -> Extension:
    """Set the ttl of our lock anew. Raises redis.RedisError."""
    _check_ttl(ttl_seconds)
    reply = client.eval(EXTEND, 1, PREFIX + job_key, token, ttl_seconds)
    return Extension(int(reply))


def release(job_key: str, token: str) -> bool:
    """Delete the lock if it is ours. A failure is only logged: the ttl ends it."""
    try:
        with connect() as client:
            return bool(client.eval(RELEASE, 1, PREFIX + job_key, token) == 1)
    except redis.RedisError as error:
        logger.warning(
            "The lock of %s was not released, its ttl will: %s",
            job_key,
            describe(error),
            extra={"action": "lock_release_failed", "job_key": job_key},
        )
        return False


def seconds_left(job_key: str) -> float | None:
    """What is left of the lock's ttl, whoever has it; None when it is free.

    Raises redis.RedisError.
    """
    with connect() as client:
        left = int(client.pttl(PREFIX + job_key))
    return left / 1000 if left >= 0 else None


def describe(error: Exception) -> str:
    """One line that names the variable and the address, without a password."""
    parts = urlsplit(settings.REDIS_URLS["jobs"])
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return (
        f"REDIS_URL ({parts.hostname}:{parts.port or 6379}) does not answer: {reason}"
    )


def _check_ttl(ttl_seconds: int) -> None:
    if ttl_seconds < 1:
        raise ValueError("A lock needs a ttl of at least one second.")
