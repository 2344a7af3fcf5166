"""The thread that keeps a run alive: extend the Redis key, touch the run, every ttl/3.

Before it: `claim` made the run. After it: `lease.finish` stops it. It has connections of
its own, never touches `JobLease`'s row lock, and tells the run when its lease is gone.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import redis
from django.db import connection
from psycopg.types.json import Jsonb

from project.jobs import lock
from project.jobs.clocks import boottime
from project.jobs.models import JobRun

logger = logging.getLogger(__name__)

TIMEOUT_S = 2.0

# The sub-select is a plain read: FOR SHARE here would wait for our own batch.
TOUCH = """
UPDATE jobs_jobrun SET heartbeat_at = clock_timestamp(), counts = %s
WHERE id = %s AND fence = %s AND state = 'running'
AND (SELECT fence FROM jobs_joblease WHERE job_key = %s) = %s
"""


class Heartbeat:
    """Beats until stopped or lost; `lost_reason()` is asked by the job's own thread."""

    def __init__(
        self,
        run: JobRun,
        token: str,
        sent_at: float,
        counts: Callable[[], dict[str, int]],
    ) -> None:
        """`sent_at`: `boottime()` just before the acquire that succeeded was sent."""
        self._run = run
        self._token = token
        self._ttl = run.ttl_seconds
        self._counts = counts
        self._reason = ""
        self._stopped = threading.Event()
        self._deadline = self._deadline_from(sent_at)
        self._next_at = sent_at + self._ttl / 3
        self._redis: redis.Redis | None = None
        self._database: psycopg.Connection[Any] | None = None
        # Django's parameters must be read in the thread that owns the connection.
        self._parameters = _connection_parameters()
        self._thread = threading.Thread(
            target=self._beat_until_stopped,
            name=f"heartbeat {run.job_key}",
            daemon=True,
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No beat after this one returns (or after its timeouts, whichever is first)."""
        self._stopped.set()
        self._thread.join(timeout=3 * TIMEOUT_S)

    def lost_reason(self) -> str:
        """Empty while the lease is ours. Looks at the deadline too, thread alive or not."""
        if not self._reason and boottime() > self._deadline:
            self._reason = f"no heartbeat reached both stores for {self._ttl} s"
        return self._reason

    def _deadline_from(self, sent_at: float) -> float:
        return sent_at + self._ttl * 0.9

    def _beat_until_stopped(self) -> None:
        try:
            while not self._stopped.wait(max(0.0, self._next_at - boottime())):
                self._next_at = boottime() + self._beat()
                if self.lost_reason():
                    break
        finally:
            self._close()

    def _beat(self) -> float:
        """One beat; the seconds to the next one. Errors are retried until the deadline."""
        sent_at = boottime()
        try:
            self._extend_and_touch()
        except (redis.RedisError, psycopg.Error, OSError) as error:
            self._close()
            logger.warning(
                "%s: a heartbeat failed, trying again: %s",
                self._run.job_key,
                (str(error) or type(error).__name__).splitlines()[0],
                extra={"action": "heartbeat_failed", "job_key": self._run.job_key},
            )
            return self._ttl / 15
        self._deadline = self._deadline_from(sent_at)
        return self._ttl / 3

    def _extend_and_touch(self) -> None:
        if self._redis is None:
            self._redis = lock.connect(min(TIMEOUT_S, self._ttl / 3))
        key = self._run.job_key
        extension = lock.extend(self._redis, key, self._token, self._ttl)
        if not self._touch():
            self._reason = "another run has taken over"
            return
        # Another token in Redis is no loss: PostgreSQL has just said that we hold it.
        if extension is lock.Extension.MISSING:
            lock.acquire_with(self._redis, key, self._token, self._ttl)

    def _touch(self) -> bool:
        if self._database is None:
            self._database = psycopg.connect(**self._parameters)
        run = self._run
        values = (Jsonb(self._counts()), run.pk, run.fence, run.job_key, run.fence)
        with self._database.transaction():
            self._database.execute("SET LOCAL statement_timeout = 2000")
            return self._database.execute(TOUCH, values).rowcount == 1

    def _close(self) -> None:
        """After an error: a connection whose backend was ended fails for ever."""
        with suppress(redis.RedisError, psycopg.Error, OSError):
            if self._redis is not None:
                self._redis.close()
            if self._database is not None:
                self._database.close()
        self._redis = self._database = None


def _connection_parameters() -> dict[str, Any]:
    timeouts = {"connect_timeout": int(TIMEOUT_S), "tcp_user_timeout": 2000}
    parameters: dict[str, Any] = connection.get_connection_params()
    return parameters | timeouts | {"autocommit": True}
