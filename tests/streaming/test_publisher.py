"""Nudges may be lost without harm; the sweep finds every ready lane."""

import threading
import time

import pytest
from django.db import connection, transaction

from project.celery import app
from project.redis import sync_client
from streaming import leases, publisher
from streaming.models import BlockedKey, InboxMessage, Lane
from streaming.publisher import CAPACITY, Nudger, Publisher
from tests.streaming.builders import (
    arrive,
    handles,
    lanes_of_ready,
    make_place,
    make_record,
    note,
)

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "streaming"


@pytest.fixture
def ready_lanes():
    records = [make_record(n, note("x"), key=b"%d" % n) for n in range(5)]
    arrive(make_place(), records, handles())
    return lanes_of_ready()


def queued() -> int:
    with sync_client("broker") as client:
        return int(client.llen(QUEUE))


def wait_for_queue(count: int) -> None:
    deadline = time.monotonic() + 10
    while queued() < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert queued() >= count


def test_the_sweep_finds_ready_lanes_that_nobody_holds(ready_lanes):
    assert sorted(publisher.sweep()) == ready_lanes
    leases.lease(ready_lanes[:2])
    assert sorted(publisher.sweep()) == ready_lanes[2:]
    Lane.objects.filter(pk=ready_lanes[0]).update(lease_until="2020-01-01T00:00:00Z")
    assert sorted(publisher.sweep()) == [ready_lanes[0], *ready_lanes[2:]]


def test_the_sweep_leaves_keys_in_back_off_alone(ready_lanes):
    message = InboxMessage.objects.get(lane_id=ready_lanes[0])
    assert message.key_hash
    BlockedKey.objects.create(
        lane_id=message.lane_id, key_hash=message.key_hash, until="2099-01-01T00:00:00Z"
    )
    assert sorted(publisher.sweep()) == ready_lanes[1:]


def test_one_consumer_sweeps_at_a_time(ready_lanes):
    swept: list[list[int]] = []

    def other() -> None:
        swept.append(publisher.sweep())
        connection.close()

    with transaction.atomic():
        assert publisher.sweep()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(10)
    assert swept == [[]]


def test_the_publisher_sweeps_by_itself_and_tells_the_workers(ready_lanes):
    thread = Publisher()
    thread.start()
    try:
        wait_for_queue(1)
        thread.nudge([1, 2, 3])
        wait_for_queue(2)
    finally:
        thread.stop()


def test_a_nudge_never_waits_and_the_set_is_bounded():
    idle = Publisher()
    idle.nudge(range(10 * CAPACITY))
    assert len(idle._lanes) == CAPACITY
    idle.stop()


def test_what_was_recorded_last_is_still_told_when_it_stops():
    for _ in range(5):
        thread = Publisher()
        thread.start()
        thread.nudge([1])
        thread.stop()
    assert queued() == 5


def test_with_all_workers_away_the_queue_does_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(publisher, "MAX_QUEUED", 3)
    nudger = Nudger()
    for _ in range(10):
        nudger.send([1])
    assert queued() == 3


def test_whatever_the_client_library_raises_the_thread_lives(
    ready_lanes, monkeypatch, caplog
):
    with monkeypatch.context() as broken:
        broken.setattr(app.conf, "broker_write_url", "no-such-transport://x")
        thread = Publisher(sweep_every_s=0.1)
        thread.start()
        deadline = time.monotonic() + 10
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.02)
    try:
        wait_for_queue(1)
    finally:
        thread.stop()


def test_with_redis_away_a_nudge_is_dropped_soon_and_says_which_variable(
    monkeypatch, caplog
):
    # Only the address is another one: port 1 answers nobody.
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")
    started = time.monotonic()
    nudger = Nudger()
    nudger.send([1])
    nudger.send([1])
    assert time.monotonic() - started < 5
    lines = [record.getMessage() for record in caplog.records]
    assert sum("REDIS_URL" in line for line in lines) == 1
