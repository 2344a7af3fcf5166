"""The consumer's second thread: nudges Celery, and sweeps for what a nudge missed.

Before it: `consumer` put lane ids into a bounded set. After it: `tasks.drain` in some
worker. A nudge is a hint and may be lost; the sweep finds every ready lane again.
"""

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import Error, close_old_connections, connection, transaction
from django.db.models.functions import Now

from project.celery import app
from streaming import leases
from streaming.models import BlockedKey
from streaming.tasks import QUEUE, drain

logger = logging.getLogger(__name__)

CAPACITY = 4096
MAX_QUEUED = 1000
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
        """Never raises: whatever a client library throws, the next sweep repeats it."""
        lanes = sorted(lane_ids)
        try:
            if lanes and self._has_room():
                for start in range(0, len(lanes), leases.MAX_LANES):
                    self._publish(lanes[start : start + leases.MAX_LANES])
        except Exception as error:  # noqa: BLE001 - see above
            self.close()
            self._complain(error)

    def close(self) -> None:
        producer, self._producer = self._producer, None
        with suppress(Exception):
            if producer is not None:
                producer.connection.release()

    def _has_room(self) -> bool:
        """With all workers away the queue must not grow for ever."""
        client = self._connected().channel.client
        return int(client.llen(QUEUE)) < MAX_QUEUED

    def _publish(self, lanes: list[int]) -> None:
        drain.apply_async((lanes,), producer=self._connected(), retry=False)

    def _connected(self) -> Any:
        if self._producer is None:
            # No retries and short timeouts: without them Celery can hang for ever.
            broker = app.connection_for_write(
                connect_timeout=REDIS_TIMEOUT_S,
                transport_options={
                    **settings.CELERY_BROKER_TRANSPORT_OPTIONS,
                    "socket_timeout": REDIS_TIMEOUT_S,
                    "socket_connect_timeout": REDIS_TIMEOUT_S,
                    "retry_on_timeout": False,
                    # Its own pause before a second try would be two seconds.
                    "interval_start": 0,
                },
            )
            self._producer = app.amqp.Producer(broker, auto_declare=False)
        return self._producer

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
        """Ends within one attempt to reach Redis, which tells of the last messages."""
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
        is_last = False
        while not is_last:
            lanes, is_last = self._wait(until=next_sweep)
            if time.monotonic() >= next_sweep and not is_last:
                lanes |= self._swept()
                next_sweep = time.monotonic() + self.sweep_every_s
            self._nudger.send(lanes)
        connection.close()
        self._nudger.close()

    def _wait(self, until: float) -> tuple[set[int], bool]:
        """The lanes to name, and whether these are the last ones."""
        with self._wake:
            self._wake.wait_for(
                lambda: self._lanes or self._stopping,
                timeout=max(0.0, until - time.monotonic()),
            )
            lanes, self._lanes = self._lanes, set()
            return lanes, self._stopping

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
