"""Scheduled jobs of tracking. Doors: the verbs are in `history` and `live`.

Before it: beat, every 60 s. After it: every buffered fix is a Position row.
"""

import logging
from typing import Any

from project.jobs.lease import Lease
from project.jobs.schedules import ensure_interval
from project.jobs.scheduling import scheduled_job
from tracking import history, live
from tracking.models import Fleet
from tracking.upkeep import LOST

logger = logging.getLogger(__name__)

FLUSH_EVERY_S = 60


@scheduled_job("flush-positions", ttl=30)
def flush_positions(lease: Lease) -> None:
    """Buffer → positions of every fleet; settles lost devices that nobody watches."""
    written = lost = 0
    for fleet_id in Fleet.objects.order_by("pk").values_list("pk", flat=True):
        lease.check()
        silent = live.expire(fleet_id)
        LOST.inc(len(silent))
        written += history.flush(fleet_id, lease.check)
        history.settle_lost(fleet_id)
        lost += len(silent)
        lease.progress(positions=written, lost=lost)
    logger.info(
        "positions flushed",
        extra={"action": "positions_flushed", "positions": written, "lost": lost},
    )


def ensure_schedules(**_: Any) -> None:
    """After each migrate: the schedule exists; an operator's changes stay."""
    ensure_interval("flush-positions", "tracking.flush_positions", FLUSH_EVERY_S)
