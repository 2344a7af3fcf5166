"""The poll loop without a group: what it keeps, what it waits for, what it says."""

import threading
import time
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from streaming import kafka
from streaming.consumer import StreamConsumer
from streaming.models import LANES, InboxMessage, Lane, Subscription
from tests.streaming.builders import make_place, make_record, note

pytestmark = pytest.mark.django_db(transaction=True)
GROUP = "alone"


@pytest.fixture
def consumer() -> Iterator[StreamConsumer]:
    made = StreamConsumer(GROUP)
    yield made
    made.close()


def test_with_no_subscription_everything_has_been_read(consumer):
    consumer.run_once()
    assert consumer.has_read_all(quiet_s=0)


def test_what_is_in_the_way_does_not_count_as_read(consumer):
    consumer.run_once()
    consumer.suspect_topics()
    assert not consumer.has_read_all(quiet_s=0)


def test_a_subscription_made_without_lanes_gets_them(consumer):
    Subscription.objects.create(topic="by-hand", group=GROUP)
    consumer.run_once()
    assert Lane.objects.count() == LANES


def test_a_lock_on_a_table_does_not_hold_up_the_loop(consumer, caplog):
    connection.close()
    locked, over = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic(), connection.cursor() as sql:
            sql.execute("LOCK TABLE streaming_subscription IN ACCESS EXCLUSIVE MODE")
            locked.set()
            over.wait(20)
        connection.close()

    thread = threading.Thread(target=lock)
    thread.start()
    assert locked.wait(10)
    started = time.monotonic()
    consumer.run_once()
    took_s = time.monotonic() - started
    over.set()
    thread.join(10)
    assert took_s < 4
    assert "lock timeout" in caplog.text


def test_nothing_is_recorded_while_a_topic_may_be_another_one(
    consumer, settings, monkeypatch
):
    place = make_place()
    consumer.places["notes", 0] = place
    consumer.batch = [make_record(0, note("of which topic?"))]
    # Nobody answers there, so that the doubt stays.
    settings.KAFKA_BOOTSTRAP_SERVERS = "127.0.0.1:1"
    monkeypatch.setattr(kafka, "CALL_TIMEOUT_S", 0.2)
    consumer.suspect_topics()
    assert consumer.run_once() == 0
    assert not InboxMessage.objects.exists()
    assert len(consumer.batch) == 1


def test_without_an_address_it_says_which_variable_to_set(settings):
    settings.KAFKA_BOOTSTRAP_SERVERS = ""
    with pytest.raises(CommandError, match="KAFKA_BOOTSTRAP_SERVERS is not set"):
        call_command("consume")


def test_header_names_that_are_not_utf8_do_not_end_the_consumer():
    class Message:
        """What confluent_kafka gives for such a record."""

        def headers(self) -> None:
            raise SystemError("returned a result with an exception set")

        def timestamp(self) -> tuple[int, int]:
            return 0, -1

        def topic(self) -> str:
            return "notes"

        partition = offset = lambda self: 0
        key = value = lambda self: b"bytes"

    record = kafka._record(Message())  # type: ignore[arg-type]
    assert record.value == b"bytes"
    assert [value for _, value in record.headers] == [None]
