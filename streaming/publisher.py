"""The consumer's second thread: nudges Celery, and sweeps for what a nudge missed.

Before it: `consumer` put lane ids into a bounded set. After it: `tasks.drain` in some
worker. A nudge is a hint and may be lost; the sweep finds every ready lane again.
"""

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import Error, close_old_connections, connection, transaction
from django.db.models.functions import Now
from kombu.exceptions import OperationalError as BrokerError
from redis import RedisError

from project.celery import app
from streaming import leases
from streaming.models import BlockedKey
from streaming.tasks import drain

logger = logging.getLogger(__name__)

CAPACITY = 4096
SWEEP_S = 5.0
REDIS_TIMEOUT_S = 2.0
REPEAT_LOG_S = 30.0
# Any constant that no other advisory lock of this database has.
SWEEP_LOCK = 0x5357_4545_5001


class Nudger:
    """Sends lane ids to the workers; with Redis away it drops them and says so.

    One per thread. The message is a hint: the sweep finds every ready lane again.
    """

    def __init__(self) -> None:
        self._producer: Any = None
        self._complained_at = float("-inf")

    def send(self, lane_ids: Iterable[int]) -> None:
        lanes = sorted(lane_ids)
        for start in range(0, len(lanes), leases.MAX_LANES):
            try:
                self._publish(lanes[start : start + leases.MAX_LANES])
            except (OSError, RedisError, BrokerError) as error:
                self.close()
                self._complain(error)
                return

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.connection.release()

    def _publish(self, lanes: list[int]) -> None:
        if self._producer is None:
            # No retries and short timeouts: without them Celery can hang for ever.
            broker = app.connection_for_write(
                connect_timeout=REDIS_TIMEOUT_S,
                transport_options={
                    **settings.CELERY_BROKER_TRANSPORT_OPTIONS,
                    "socket_timeout": REDIS_TIMEOUT_S,
                    "socket_connect_timeout": REDIS_TIMEOUT_S,
                    "retry_on_timeout": False,
                },
            )
            self._producer = app.amqp.Producer(broker, auto_declare=False)
        drain.apply_async((lanes,), producer=self._producer, retry=False)

    def _complain(self, error: Exception) -> None:
        if time.monotonic() - self._complained_at < REPEAT_LOG_S:
            return
        self._complained_at = time.monotonic()
        logger.warning(
            "No answer from Redis at REDIS_URL=%s: %s. Messages are kept and handed to"
            " workers once it is back.",
            _address(),
            error,
            extra={"action": "nudge_failed"},
        )


class Publisher:
    """`nudge` never waits: what does not fit is dropped, the sweep brings it back."""

    def __init__(self, sweep_every_s: float = SWEEP_S) -> None:
        self.sweep_every_s = sweep_every_s
        self._lanes: set[int] = set()
        self._wake = threading.Condition()
        self._stopping = False
        self._nudger = Nudger()
        self._thread = threading.Thread(
            target=self._run, name="streaming-publisher", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends within one attempt to reach Redis; what was not sent stays for others."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(2 * REDIS_TIMEOUT_S)

    def nudge(self, lane_ids: Iterable[int]) -> None:
        with self._wake:
            room = CAPACITY - len(self._lanes)
            self._lanes.update(list(lane_ids)[: max(0, room)])
            self._wake.notify()

    def _run(self) -> None:
        next_sweep = time.monotonic()
        while True:
            with self._wake:
                self._wake.wait_for(
                    lambda: self._lanes or self._stopping,
                    timeout=max(0.0, next_sweep - time.monotonic()),
                )
                if self._stopping:
                    break
                lanes, self._lanes = self._lanes, set()
            if time.monotonic() >= next_sweep:
                lanes |= self._swept()
                next_sweep = time.monotonic() + self.sweep_every_s
            self._nudger.send(lanes)
        connection.close()
        self._nudger.close()

    def _swept(self) -> set[int]:
        close_old_connections()
        try:
            return set(sweep())
        except Error:
            # The poll thread meets the same database and says so.
            return set()


def sweep() -> list[int]:
    """Lanes with work that nobody holds; empty when another consumer is sweeping."""
    with transaction.atomic(), connection.cursor() as sql:
        sql.execute("SET LOCAL statement_timeout = '5s'")
        sql.execute("SELECT pg_try_advisory_xact_lock(%s)", [SWEEP_LOCK])
        if sql.fetchone() == (False,):
            return []
        BlockedKey.objects.filter(until__lt=Now()).delete()
        return leases.waiting(CAPACITY)


def _address() -> str:
    """Without the password."""
    return settings.REDIS_URL.rpartition("@")[2] or "(not set)"
