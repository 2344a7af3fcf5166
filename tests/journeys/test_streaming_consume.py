"""Journeys of the consumer process with a real broker: stop, restart, memory lost."""

import time

import orjson
import pytest

from streaming.models import Cursor, InboxMessage, Subscription
from tests.processes import Processes
from tests.streaming.produce import produce

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]


def fixes(count: int) -> list[tuple[bytes, bytes]]:
    fields = {"schema": "fix/1", "lat": 1, "lon": 2, "fixed_at": "2026-12-01T00:00:00Z"}
    return [
        (str(n % 7).encode(), orjson.dumps(fields | {"device": str(n % 7)}))
        for n in range(count)
    ]


def received() -> int:
    return InboxMessage.objects.count()


def test_a_consumer_that_is_told_to_stop_leaves_at_once_and_the_next_goes_on(
    processes: Processes,
) -> None:
    Subscription.objects.ensure("stop-fixes", "drover")
    produce(processes, "stop-fixes", fixes(500))
    processes.manage("consume")
    processes.wait_for(lambda: received() == 500, timeout=40, what="500 rows")
    started = time.monotonic()
    assert processes.stop("consume") == 0
    assert time.monotonic() - started < 10
    produce(processes, "stop-fixes", fixes(300))
    processes.manage("consume", "--once", name="again")
    assert processes.all["again"].wait(40) == 0
    assert received() == 800
    assert sum(Cursor.objects.values_list("next_offset", flat=True)) == 800
