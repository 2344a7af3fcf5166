"""A batch becomes rows once, whoever brings it and however often."""

import base64
import uuid

import pytest

from streaming import cursors
from streaming.cursors import Broker
from streaming.intake import key_hash
from streaming.kafka import Topic
from streaming.models import Attempt, Cursor, DeadLetter, InboxMessage, Subscription
from tests.streaming.builders import NOBODY, arrive, handles, make_place, make_record
from tests.streaming.builders import note as note_bytes

pytestmark = pytest.mark.django_db
TABLE = handles()


def test_a_batch_becomes_rows_and_moves_the_cursor():
    place = make_place()
    records = [make_record(n, note_bytes(str(n))) for n in range(5)]
    recorded = arrive(place, records, TABLE)
    assert (recorded.ready, recorded.dead, recorded.dropped) == (5, 0, 0)
    assert recorded.next_offsets == {("notes", 0): 5}
    assert Cursor.objects.get(pk=place.cursor_id).next_offset == 5
    assert len(recorded.lanes) == 1


def test_a_redelivered_batch_inserts_nothing_and_moves_nothing():
    place = make_place()
    records = [make_record(n, note_bytes(str(n))) for n in range(5)]
    arrive(place, records, TABLE)
    again = arrive(place, records, TABLE)
    assert (again.ready, again.dropped, again.next_offsets) == (0, 5, {})
    assert InboxMessage.objects.count() == 5


def test_a_batch_that_overlaps_inserts_only_what_is_new():
    place = make_place()
    arrive(place, [make_record(n, note_bytes("a")) for n in range(3)], TABLE)
    again = arrive(place, [make_record(n, note_bytes("b")) for n in range(6)], TABLE)
    assert (again.ready, again.dropped) == (3, 3)


def test_an_invalid_record_is_dead_with_its_letter_in_the_same_batch():
    place = make_place()
    records = [make_record(0, note_bytes("fine")), make_record(1, b"{broken")]
    recorded = arrive(place, records, TABLE)
    assert (recorded.ready, recorded.dead) == (1, 1)
    message = InboxMessage.objects.get(offset=1)
    assert message.status == InboxMessage.Status.DEAD
    letter = DeadLetter.objects.get()
    assert (letter.message_id, letter.reason) == (message.pk, "bad_json")
    assert Attempt.objects.get().outcome == Attempt.Outcome.INVALID


def test_bytes_and_headers_are_kept_as_they_came():
    place = make_place()
    headers = [("a", b"\x00\xff"), ("a", None), ("b\x00", b""), ("\udc80", b"1")]
    record = make_record(0, None, key=b"\x00key", headers=headers, ts_ms=2**62)
    arrive(place, [record], TABLE)
    row = InboxMessage.objects.get()
    assert row.value is None
    assert bytes(row.key or b"") == b"\x00key"
    assert row.ts_ms == 2**62
    first = base64.b64encode(b"\x00\xff").decode()
    assert row.headers[:2] == [["a", first], ["a", None]]
    assert [value for _, value in row.headers[2:]] == ["", "MQ=="]


def test_an_empty_value_differs_from_a_null_one():
    place = make_place()
    arrive(place, [make_record(0, None), make_record(1, b"")], TABLE)
    reasons = DeadLetter.objects.order_by("offset").values_list("reason", flat=True)
    assert list(reasons) == ["tombstone", "empty"]


@pytest.mark.parametrize(
    ("ordering", "key", "expected"),
    [
        pytest.param("key", b"k", key_hash(b"k"), id="key"),
        pytest.param("key", None, None, id="null key is unordered"),
        pytest.param("partition", b"k", 0, id="partition"),
        pytest.param("none", b"k", None, id="none"),
    ],
)
def test_the_ordering_decides_what_keeps_order(ordering, key, expected):
    place = make_place(ordering=ordering)
    arrive(place, [make_record(7, note_bytes("x"), key=key)], TABLE)
    assert InboxMessage.objects.get().key_hash == expected


def test_a_topic_made_again_is_read_from_its_beginning():
    place = make_place()
    arrive(place, [make_record(n, note_bytes("old")) for n in range(5)], TABLE)
    subscription = Subscription.objects.get()
    committed = Broker(committed=lambda spots: {("x", 0): 5}, latest=lambda spot: 9)
    fresh = cursors.place(subscription, Topic(uuid.uuid4(), 4), [0], committed)[0]
    assert fresh.start == 0
    recorded = arrive(fresh, [make_record(0, note_bytes("new"))], TABLE)
    assert (recorded.ready, recorded.dropped) == (1, 0)


def test_the_start_policy_counts_for_the_first_start_only():
    made = Subscription.objects.ensure("late", "tests", start="latest")
    broker = Broker(committed=lambda spots: {}, latest=lambda spot: 42)
    topic = Topic(uuid.uuid4(), partitions=2)
    assert cursors.place(made, topic, [0], broker)[0].start == 42
    grown = Topic(topic.topic_uuid, partitions=3)
    assert cursors.place(made, grown, [1, 2], broker)[2].start == 0


def test_kafkas_commit_counts_where_the_cursor_is_absent():
    made = Subscription.objects.ensure("moved-here", "tests")
    broker = Broker(lambda spots: dict.fromkeys(spots, 17), NOBODY.latest)
    topic = Topic(uuid.uuid4(), partitions=1)
    assert cursors.place(made, topic, [0], broker)[0].start == 17
    assert cursors.place(made, topic, [0], NOBODY)[0].start == 17


def test_a_record_that_the_database_refuses_is_kept_as_what_is_known_of_it():
    place = make_place()
    records = [make_record(n, note_bytes(str(n))) for n in range(3)]
    records[1] = make_record(1, note_bytes("1"), ts_ms=2**70)
    recorded = arrive(place, records, TABLE)
    assert (recorded.ready, recorded.dead) == (2, 1)
    assert recorded.next_offsets == {("notes", 0): 3}
    letter = DeadLetter.objects.get()
    assert (letter.offset, letter.reason) == (1, "unstorable")
    assert "SHA-256" in letter.detail
