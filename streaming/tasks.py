"""Celery's door: lane ids in, `lanes.drain` called. A lost or doubled message is harmless.

Before it: `publisher`. After it: `lanes`.
"""

import logging
import time
from collections.abc import Sequence

from celery import shared_task
from django.db import InterfaceError, InternalError, OperationalError
from kombu.exceptions import OperationalError as BrokerError
from redis import RedisError

from streaming import lanes
from streaming.burial import database_address

logger = logging.getLogger(__name__)

QUEUE = "streaming"
# Longer waits are left to the sweep: its few seconds do not matter there.
LONGEST_WAIT_S = 30.0
REPEAT_LOG_S = 30.0

_complained_at = float("-inf")


@shared_task(name="streaming.drain")
def drain(lane_ids: list[int]) -> None:
    try:
        again_s = lanes.drain(lane_ids)
    except (OperationalError, InterfaceError, InternalError) as error:
        _complain(error)
        return
    if again_s is not None and again_s <= LONGEST_WAIT_S:
        _again(lane_ids, again_s)


def _again(lane_ids: Sequence[int], after_s: float) -> None:
    try:
        drain.apply_async((list(lane_ids),), countdown=after_s, retry=False)
    except (OSError, RedisError, BrokerError):
        logger.debug("Redis is away: the sweep names these lanes.", exc_info=True)


def _complain(error: Exception) -> None:
    """Once in a while: every nudge of an outage comes here."""
    global _complained_at  # noqa: PLW0603
    if time.monotonic() - _complained_at < REPEAT_LOG_S:
        return
    _complained_at = time.monotonic()
    logger.warning(
        "No answer from the database at DATABASE_URL=%s: %s. The lanes are taken again"
        " once their leases are over.",
        database_address(),
        str(error).partition("\n")[0],
        extra={"action": "database_unavailable"},
    )
