"""Records into Kafka, for journeys."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from django.conf import settings

Pair = tuple[bytes | None, bytes | None]
PARTITIONS = 4


def produce(topic: str, pairs: Iterable[Pair], *, broker: str = "") -> None:
    """Make the topic where it is missing, and put these (key, value) into it."""
    address: dict[str, Any] = {
        "bootstrap.servers": broker or settings.KAFKA_BOOTSTRAP_SERVERS
    }
    # Held in a name: the futures fail once their client is collected.
    admin = AdminClient(address)
    if topic not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(10)
    producer = Producer(address | {"acks": "all", "linger.ms": 5})
    for key, value in pairs:
        # None must stay None: a null value is a tombstone.
        producer.produce(topic, value=value, key=key)
        producer.poll(0)
    assert producer.flush(20) == 0
