"""Subscriptions, records and handlers for tests; real rows, no mocks."""

import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Literal

import orjson
from pydantic import Field

from streaming import cursors, intake
from streaming.burial import Failure
from streaming.cursors import Broker, Place
from streaming.handlers import Handler, Message
from streaming.intake import Arrival, Recorded
from streaming.kafka import Record, Topic
from streaming.models import InboxMessage, Subscription
from streaming.retries import RetryPolicy
from streaming.schemas import Event, InvalidMessage, decode

NOBODY = Broker(committed=lambda spots: {}, latest=lambda spot: 0)
topic_names = (f"topic-{n}" for n in itertools.count())


class Note(Event):
    """`note/1`: something that a test handler does something with."""

    schema_: Literal["note/1"] = Field(alias="schema")
    text: str


def note(text: str) -> bytes:
    return orjson.dumps({"schema": "note/1", "text": text})


def handles(
    apply: Callable[[Message], str] | None = None, **options: Any
) -> dict[str, Handler]:
    """A table with one handler, of `note/1`."""
    options = {"retry": RetryPolicy(max_attempts=3, base_s=0.0)} | options
    return {"note/1": Handler("test.note", Note, apply=apply, **options)}


def make_place(
    partition: int = 0, *, topic_uuid: uuid.UUID | None = None, **subscription: Any
) -> Place:
    """A partition with its cursor at 0."""
    made = Subscription.objects.ensure(next(topic_names), "tests", **subscription)
    topic = Topic(topic_uuid or uuid.uuid4(), partitions=4)
    return cursors.place(made, topic, [partition], NOBODY)[partition]


def make_record(offset: int, value: bytes | None, **over: Any) -> Record:
    values: dict[str, Any] = {
        "topic": "notes",
        "partition": 0,
        "key": b"k",
        "headers": [],
        "ts_ms": 1_764_600_000_000,
    }
    return Record(offset=offset, value=value, **(values | over))


def arrive(
    place: Place, records: Sequence[Record], table: dict[str, Handler]
) -> Recorded:
    """What the consumer does with a batch of one partition."""
    return intake.record([_arrival(place, record, table) for record in records])


def _arrival(place: Place, record: Record, table: dict[str, Handler]) -> Arrival:
    try:
        decode(record.value, table)
    except InvalidMessage as error:
        return Arrival(place, record, Failure.of(error, error.reason, error.path))
    return Arrival(place, record, None)


def lanes_of_ready() -> list[int]:
    ready = InboxMessage.objects.filter(status=InboxMessage.Status.READY)
    return sorted(set(ready.values_list("lane_id", flat=True)))
