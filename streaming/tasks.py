"""Celery's door: lane ids in, `lanes.drain` called. A lost or doubled message is harmless.

Before it: `publisher`. After it: `lanes`.
"""

from celery import shared_task

from streaming import lanes


@shared_task(name="streaming.drain")
def drain(lane_ids: list[int]) -> None:
    if lanes.drain(lane_ids):
        drain.delay(lane_ids)
