"""Work that outlasts its lease, or a worker that was stopped, never has a second effect."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from django.db import (
    InterfaceError,
    InternalError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import F
from pydantic import Field

from streaming import inbox, lanes, leases
from streaming.handlers import Handler
from streaming.models import HandledMessage, InboxMessage, Lane
from streaming.retries import Retry, RetryPolicy
from streaming.schemas import Event
from tests.streaming.builders import (
    arrive,
    handles,
    lanes_of_ready,
    make_place,
    make_record,
    note,
)

pytestmark = pytest.mark.django_db(transaction=True)


class Slow(Event):
    """`slow/1`: like a note, for a handler that only prepares."""

    schema_: Literal["slow/1"] = Field(alias="schema")


@pytest.fixture
def short_leases(monkeypatch):
    monkeypatch.setattr(leases, "LEASE_S", 0.6)


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        work(over)
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


def test_a_handler_that_outlasts_its_lease_keeps_its_lane(short_leases):
    def prepare(message):
        time.sleep(1.5)
        return "slow"

    table = handles(None, prepare=prepare)
    arrive(make_place(), [make_record(0, note("x"))], table)
    lane_ids = lanes_of_ready()
    stolen: list[leases.Held] = []

    def steal(over: threading.Event) -> None:
        while not over.wait(0.1):
            stolen.extend(leases.lease(lane_ids))

    # The thief comes once the lane is leased.
    def prepared(message):
        with meanwhile(steal):
            return prepare(message)

    lanes.drain(lane_ids, handles(None, prepare=prepared))
    assert stolen == []
    assert HandledMessage.objects.get().attempts == 1


def test_a_worker_that_stops_inside_a_transaction_loses_its_lanes(short_leases):
    table = handles(lambda message: "ok")
    arrive(make_place(), [make_record(0, note("x"))], table)
    lane_ids = lanes_of_ready()
    held = leases.lease(lane_ids)
    claimed = inbox.claim(held, 10)

    def take_over(over: threading.Event) -> None:
        while HandledMessage.objects.count() == 0 and not over.wait(0.05):
            lanes.drain(lane_ids, table)

    def finish_too_late() -> None:
        with transaction.atomic():
            leases.fence(held)
            with meanwhile(take_over):
                time.sleep(1.5)
            inbox.complete([(claimed[0], "test.note", "too late")])

    with pytest.raises((InterfaceError, InternalError, OperationalError)):
        finish_too_late()
    connection.close()
    assert HandledMessage.objects.get().outcome == "ok"


def test_a_worker_that_lost_its_lane_prepares_nothing_more(short_leases):
    prepared = []

    def prepare(message):
        prepared.append(message.offset)
        if len(prepared) == 1:
            # As if the process had been stopped, and another one been faster.
            time.sleep(0.3)
            Lane.objects.filter(lease_until__isnull=False).update(epoch=F("epoch") + 1)
        return "ok"

    table = handles(None, prepare=prepare)
    arrive(make_place(), [make_record(n, note("x")) for n in range(5)], table)
    lanes.drain(lanes_of_ready(), table)
    assert prepared == [0]
    assert InboxMessage.objects.count() == 5


def test_a_slow_part_waits_for_what_its_key_has_before_it():
    story = []

    def prepare(message):
        story.append(("prepare", message.offset))
        return "ok"

    def apply(message):
        story.append(("apply", message.offset))
        if message.offset == 2 and message.attempts == 1:
            raise Retry(after=60)
        return "ok"

    table = handles(apply)
    table["slow/1"] = Handler("test.slow", Slow, prepare=prepare)
    place = make_place()
    records = [make_record(n, note("x")) for n in range(4)]
    arrive(place, records, table)
    slow = note("x").replace(b"note/1", b"slow/1")
    InboxMessage.objects.filter(offset__in=[1, 3]).update(value=slow)
    lanes.drain(lanes_of_ready(), table)
    # What fails in a group is applied once more, alone.
    in_order = list(dict.fromkeys(story))
    assert in_order == [("apply", 0), ("prepare", 1), ("apply", 2)]
    waiting = InboxMessage.objects.order_by("offset").values_list("offset", "attempts")
    assert list(waiting) == [(2, 1), (3, 0)]


def test_a_drain_says_when_the_shortest_back_off_is_over():
    def apply(message):
        raise Retry(after=message.offset + 7)

    table = handles(apply, retry=RetryPolicy(max_attempts=9))
    records = [make_record(n, note("x"), key=b"%d" % n) for n in range(3)]
    arrive(make_place(), records, table)
    assert lanes.drain(lanes_of_ready(), table) == 7
    assert lanes.drain(lanes_of_ready(), table) is None
    assert lanes.drain(lanes_of_ready(), table, seconds=0) == 0
