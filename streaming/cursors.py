"""Where each partition starts, and how far behind it is.

Before it: a partition was assigned to this consumer. After it: `consumer` reads from
here. Only an absent cursor falls through to Kafka's commit and then to the start policy,
and only in the first incarnation of a topic; everything later starts at the earliest.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import connection, transaction

from streaming.kafka import Spot, Topic
from streaming.models import Cursor, Subscription, TopicIncarnation


@dataclass(frozen=True, slots=True)
class Place:
    """What the rows of a partition are written with, and where reading starts."""

    cursor_id: int
    incarnation_id: int
    subscription_id: int
    ordering: str
    start: int


@dataclass(frozen=True)
class Broker:
    """The two questions asked of Kafka. Both raise BrokerUnavailable."""

    committed: Callable[[Iterable[Spot]], dict[Spot, int]]
    latest: Callable[[Spot], int]


def place(
    subscription: Subscription, topic: Topic, partitions: Iterable[int], broker: Broker
) -> dict[int, Place]:
    """The place of each partition; missing cursor rows are made."""
    incarnation = _incarnation(subscription, topic)
    cursors = {row.partition: row for row in incarnation.cursors.all()}
    places = {}
    for partition in partitions:
        cursor = cursors.get(partition) or _first_cursor(incarnation, partition, broker)
        places[partition] = Place(
            cursor_id=cursor.pk,
            incarnation_id=incarnation.pk,
            subscription_id=subscription.pk,
            ordering=subscription.ordering,
            start=cursor.next_offset,
        )
    return places


def _incarnation(subscription: Subscription, topic: Topic) -> TopicIncarnation:
    known = {row.topic_uuid: row for row in subscription.incarnations.all()}
    if found := known.get(topic.topic_uuid):
        return found
    made, _ = TopicIncarnation.objects.get_or_create(
        subscription=subscription,
        topic_uuid=topic.topic_uuid,
        defaults={"policy_partitions": 0 if known else topic.partitions},
    )
    return made


def _first_cursor(
    incarnation: TopicIncarnation, partition: int, broker: Broker
) -> Cursor:
    start = 0
    if partition < incarnation.policy_partitions:
        spot = (incarnation.subscription.topic, partition)
        committed = broker.committed([spot]).get(spot)
        if committed is not None:
            start = committed
        elif incarnation.subscription.start == Subscription.Start.LATEST:
            start = broker.latest(spot)
    cursor, _ = Cursor.objects.get_or_create(
        incarnation=incarnation, partition=partition, defaults={"next_offset": start}
    )
    return cursor


def sample(log_ends: dict[int, int]) -> None:
    """Keep the end of the log per cursor id, so that pages never ask Kafka."""
    with transaction.atomic(), connection.cursor() as sql:
        sql.execute(
            "UPDATE streaming_cursor c SET log_end = v.log_end, sampled_at = now()"
            " FROM unnest(%s::bigint[], %s::bigint[]) AS v(id, log_end)"
            " WHERE c.id = v.id",
            [list(log_ends), list(log_ends.values())],
        )
