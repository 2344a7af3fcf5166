"""Kafka behind plain values: configuration, a feed of records, topics, a producer.

Before it: the broker. After it: `consumer`. The only import of confluent_kafka.
"""

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from django.conf import settings

logger = logging.getLogger(__name__)
_EXPECTED = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_ALREADY_EXISTS)

Spot = tuple[str, int]
Headers = list[tuple[str, bytes | None]]

CALL_TIMEOUT_S = 3.0
REPEAT_LOG_S = 30.0


class BrokerUnavailable(Exception):
    """Ask again later; the message names the variable and the address."""


class FeedDead(Exception):
    """The client cannot go on: end the process, so that its supervisor starts anew."""


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record. A null key or value is None, which differs from b""."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    ts_ms: int


class Topic(NamedTuple):
    topic_uuid: uuid.UUID
    partitions: int


class Listener(Protocol):
    """What a feed tells its owner, from within `poll`."""

    def assigned(self, spots: list[Spot]) -> None: ...
    def revoked(self, spots: list[Spot]) -> None: ...
    def out_of_range(self, spot: Spot) -> None: ...
    def suspect_topics(self) -> None: ...


def unavailable(detail: object) -> BrokerUnavailable:
    where = f"KAFKA_BOOTSTRAP_SERVERS={settings.KAFKA_BOOTSTRAP_SERVERS or '(not set)'}"
    return BrokerUnavailable(f"No answer from Kafka at {where}: {detail}")


def client_config(**extra: Any) -> dict[str, Any]:
    # librdkafka's own log lines repeat every second while a broker is away.
    return {
        "bootstrap.servers": settings.KAFKA_BOOTSTRAP_SERVERS,
        "log_level": 0,
        "reconnect.backoff.max.ms": 2000,
        "socket.timeout.ms": 10_000,
    } | extra


def consumer_config(group: str) -> dict[str, Any]:
    """Offsets are committed by hand; a lost position is an error, never a guess."""
    return client_config(
        **{
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "cooperative-sticky",
            # The embedded broker lets a join take half of this.
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1500,
            "max.poll.interval.ms": 60_000,
            "allow.auto.create.topics": False,
            "topic.metadata.refresh.interval.ms": 5000,
            "queued.max.messages.kbytes": 16_384,
            "queued.min.messages": 2000,
        }
    )


class Feed:
    """A group consumer that hands out records and keeps every error to itself.

    Newly assigned partitions stay paused until `start` gives them an offset.
    """

    def __init__(self, group: str, listener: Listener) -> None:
        self.listener = listener
        self._complained_at = 0.0
        self._client = Consumer(
            consumer_config(group) | {"error_cb": self._broker_error}
        )

    def subscribe(self, topics: Iterable[str]) -> None:
        if not (names := sorted(topics)):
            self._client.unsubscribe()
            return
        self._client.subscribe(
            names,
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )

    def poll(self, limit: int, timeout_s: float) -> list[Record]:
        """Up to `limit` records. Raises FeedDead when the client is beyond repair."""
        records = []
        for message in self._client.consume(limit, timeout_s):
            # Never truth: an empty or null value makes a Message falsy.
            if (error := message.error()) is None:
                records.append(_record(message))
            else:
                self._message_error(message, error)
        return records

    def start(self, offsets: dict[Spot, int | None]) -> None:
        """Read each partition from its offset; None = from the beginning."""
        spots = [TopicPartition(*spot) for spot in offsets]
        self._client.incremental_unassign(spots)
        self._client.incremental_assign(
            [
                TopicPartition(*spot, OFFSET_BEGINNING if offset is None else offset)
                for spot, offset in offsets.items()
            ]
        )
        # Pauses outlive a rebalance, so an assignment always says which it is.
        self._client.resume(spots)

    def pause(self, spots: Iterable[Spot]) -> None:
        self._client.pause([TopicPartition(*spot) for spot in spots])

    def resume(self, spots: Iterable[Spot]) -> None:
        self._client.resume([TopicPartition(*spot) for spot in spots])

    def commit(self, next_offsets: dict[Spot, int]) -> None:
        """Best effort and asynchronous: the truth is the cursor in PostgreSQL."""
        offsets = [TopicPartition(*spot, next_offsets[spot]) for spot in next_offsets]
        with suppress(KafkaException):
            self._client.commit(offsets=offsets, asynchronous=True)

    def committed(self, spots: Iterable[Spot]) -> dict[Spot, int]:
        """What the group committed, where it did. Raises BrokerUnavailable."""
        asked = [TopicPartition(*spot) for spot in spots]
        try:
            found = self._client.committed(asked, timeout=CALL_TIMEOUT_S)
        except KafkaException as error:
            raise unavailable(error) from None
        return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}

    def latest(self, spot: Spot) -> int:
        """The end of the log, asked of the broker. Raises BrokerUnavailable."""
        where = TopicPartition(*spot)
        try:
            return self._client.get_watermark_offsets(where, timeout=CALL_TIMEOUT_S)[1]
        except KafkaException as error:
            raise unavailable(error) from None

    def log_end(self, spot: Spot) -> int | None:
        """The end of the log as the last fetch saw it; asks nobody."""
        where, high = TopicPartition(*spot), -1
        with suppress(KafkaException):
            high = self._client.get_watermark_offsets(where, cached=True)[1]
        return high if high >= 0 else None

    def close(self) -> None:
        self._client.close()

    def _assigned(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        spots = [(tp.topic, tp.partition) for tp in partitions]
        self._client.incremental_assign(
            [TopicPartition(*spot, OFFSET_BEGINNING) for spot in spots]
        )
        self.pause(spots)
        self.listener.assigned(spots)

    def _revoked(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        self.listener.revoked([(tp.topic, tp.partition) for tp in partitions])
        self._client.incremental_unassign(partitions)

    def _message_error(self, message: Message, error: KafkaError) -> None:
        if error.fatal():
            raise FeedDead(str(error))
        if (code := error.code()) == KafkaError._AUTO_OFFSET_RESET:
            self.listener.out_of_range((str(message.topic()), message.partition() or 0))
        elif code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            self.listener.suspect_topics()
            self.complain(f"Kafka does not know a topic: {error.str()}")
        else:
            self._broker_error(error)

    def _broker_error(self, error: KafkaError) -> None:
        self.listener.suspect_topics()
        self.complain(str(unavailable(error.str())))

    def complain(self, text: str) -> None:
        if time.monotonic() - self._complained_at > REPEAT_LOG_S:
            self._complained_at = time.monotonic()
            logger.warning(
                "%s. Trying again.", text, extra={"action": "kafka_unavailable"}
            )


def topics(names: Sequence[str]) -> dict[str, Topic]:
    """The topics of these names that exist. Raises BrokerUnavailable."""
    # Held in a name: the futures fail once their client is collected.
    admin = AdminClient(client_config())
    futures = admin.describe_topics(
        TopicCollection(list(names)), request_timeout=CALL_TIMEOUT_S
    )
    found = {name: _result(future) for name, future in futures.items()}
    return {
        name: Topic(_uuid(described.topic_id), len(described.partitions))
        for name, described in found.items()
        if described is not None
    }


def ensure_topics(partitions: dict[str, int]) -> None:
    """Create the topics that are missing. Raises BrokerUnavailable."""
    missing = partitions.keys() - topics(list(partitions)).keys()
    if not missing:
        return
    new = [NewTopic(name, partitions[name]) for name in sorted(missing)]
    admin = AdminClient(client_config())
    for future in admin.create_topics(new, request_timeout=CALL_TIMEOUT_S).values():
        _result(future)


def _result(future: Future[Any]) -> Any:
    """The answer; None for "no such topic" and "it is there already"."""
    try:
        return future.result(CALL_TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        code = error.args[0].code() if isinstance(error, KafkaException) else None
        if code in _EXPECTED:
            return None
        raise unavailable(error) from None


def producer() -> Producer:
    """Acknowledged by all replicas, without doubles of its own."""
    own = {"acks": "all", "enable.idempotence": True, "linger.ms": 20}
    return Producer(client_config(**own))


def _record(message: Message) -> Record:
    return Record(
        topic=cast("str", message.topic()),
        partition=cast("int", message.partition()),
        offset=cast("int", message.offset()),
        key=message.key(),
        value=message.value(),
        headers=_headers(message),
        ts_ms=message.timestamp()[1],
    )


def _headers(message: Message) -> Headers:
    try:
        return cast("Headers", message.headers() or [])
    except (SystemError, UnicodeDecodeError):
        # The client cannot give names that are not UTF-8, and keeps none of the others.
        return [("(names that are not UTF-8)", None)]


def _uuid(topic_id: Any) -> uuid.UUID:
    """confluent_kafka gives the two halves as signed integers."""
    halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    return uuid.UUID(bytes=b"".join(h.to_bytes(8, "big", signed=True) for h in halves))
