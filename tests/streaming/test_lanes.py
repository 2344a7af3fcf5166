"""Effects happen once, in the order of the key, whatever a handler does."""

from contextlib import suppress

import pytest
from django.db import IntegrityError, connection

from products.models import Source
from streaming import inbox, lanes, leases
from streaming.leases import LaneLost
from streaming.models import (
    Attempt,
    BlockedKey,
    DeadLetter,
    HandledMessage,
    InboxMessage,
    Lane,
)
from streaming.retries import Reject, Retry, RetryPolicy
from tests.streaming.builders import (
    arrive,
    handles,
    lanes_of_ready,
    make_place,
    make_record,
    note,
)

pytestmark = pytest.mark.django_db
# Time stands still inside the transaction of an ordinary test.
real_transactions = pytest.mark.django_db(transaction=True)


def texts(messages):
    return [message.event.text for message in messages]


def effect(text):
    """An effect in the database, so that a rollback takes it away."""
    Source.objects.create(slug=text, name=text, kind="rest_json")


def test_messages_are_handled_in_the_order_of_their_key_and_leave_the_inbox():
    done = []

    def apply(message):
        done.append(message)
        return "ok"

    table = handles(apply)
    place = make_place()
    keys = [b"a", b"b", b"a", b"c", b"b", b"a"]
    records = [make_record(n, note(str(n)), key=key) for n, key in enumerate(keys)]
    arrive(place, records, table)
    assert lanes.drain(lanes_of_ready(), table) is None
    for key in (b"a", b"b", b"c"):
        offsets = [message.offset for message in done if message.key == key]
        assert offsets == [n for n, other in enumerate(keys) if other == key]
    assert not InboxMessage.objects.exists()
    assert HandledMessage.objects.filter(outcome="ok", attempts=1).count() == 6
    assert not Lane.objects.filter(lease_until__isnull=False).exists()


def test_one_failure_in_a_group_rolls_back_nothing_of_its_neighbours():
    def apply(message):
        effect(f"note-{message.offset}")
        if message.offset == 3:
            raise ValueError("no")
        return "ok"

    table = handles(apply, retry=RetryPolicy(max_attempts=1))
    place = make_place()
    records = [make_record(n, note("x"), key=str(n).encode()) for n in range(8)]
    arrive(place, records, table)
    lanes.drain(lanes_of_ready(), table)
    assert Source.objects.count() == HandledMessage.objects.count() == 7
    letter = DeadLetter.objects.get()
    assert (letter.offset, letter.reason) == (3, "gave_up")
    assert letter.error_class == "ValueError"
    assert "ValueError: no" in Attempt.objects.get().traceback


@real_transactions
def test_a_handler_that_breaks_its_transaction_fails_alone():
    def apply(message):
        effect(f"note-{message.offset}")
        if message.offset == 2:
            # Swallowed, so that only PostgreSQL knows that all is over.
            with suppress(IntegrityError):
                effect("note-1")
        return "ok"

    table = handles(apply, retry=RetryPolicy(max_attempts=1))
    records = [make_record(n, note("x"), key=str(n).encode()) for n in range(5)]
    arrive(make_place(), records, table)
    InboxMessage.objects.update(lane_id=lanes_of_ready()[0])
    lanes.drain(lanes_of_ready(), table)
    assert Source.objects.count() == HandledMessage.objects.count() == 4
    assert DeadLetter.objects.get().error_class == "TransactionManagementError"


@real_transactions
def test_a_message_in_back_off_blocks_only_its_own_key():
    done = []

    def apply(message):
        if message.event.text == "later":
            raise Retry(after=60)
        done.append((message.key, message.event.text))
        return "ok"

    table = handles(apply, retry=RetryPolicy(max_attempts=9))
    place = make_place()
    # One lane for both keys, so that the lane itself cannot be what blocks.
    arrive(
        place,
        [
            make_record(0, note("first"), key=b"a"),
            make_record(1, note("later"), key=b"a"),
            make_record(2, note("after it"), key=b"a"),
            make_record(3, note("free"), key=b"b"),
        ],
        table,
    )
    InboxMessage.objects.update(lane_id=lanes_of_ready()[0])
    lanes.drain(lanes_of_ready(), table)
    assert sorted(set(done)) == [(b"a", "first"), (b"b", "free")]
    waiting = dict(InboxMessage.objects.values_list("offset", "attempts"))
    assert waiting == {1: 1, 2: 0}
    assert Attempt.objects.get().retry_at is not None

    BlockedKey.objects.update(until="2020-01-01T00:00:00Z")
    InboxMessage.objects.filter(offset=1).update(
        not_before=None, value=note("works now")
    )
    lanes.drain(lanes_of_ready(), table)
    assert done[-2:] == [(b"a", "works now"), (b"a", "after it")]


def test_what_is_rejected_is_dead_at_once_and_its_key_goes_on():
    def apply(message):
        if message.offset == 0:
            raise Reject("unknown_thing", "There is no such thing.")
        return "ok"

    table = handles(apply)
    arrive(make_place(), [make_record(n, note("x")) for n in range(2)], table)
    lanes.drain(lanes_of_ready(), table)
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts) == ("unknown_thing", 1)
    assert HandledMessage.objects.get().offset == 1


@real_transactions
def test_attempts_end_in_a_dead_letter():
    table = handles(lambda message: str(1 / 0))
    arrive(make_place(), [make_record(0, note("x"))], table)
    lanes.drain(lanes_of_ready(), table)
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts) == ("gave_up", 3)
    outcomes = Attempt.objects.values_list("outcome", flat=True)
    assert list(outcomes) == ["failed", "failed", "dead"]
    assert not BlockedKey.objects.exists()


@real_transactions
def test_what_prepare_returns_reaches_apply_inside_the_transaction():
    seen = []

    def prepare(message):
        seen.append(("prepare", connection.in_atomic_block))
        return message.event.text.upper()

    def apply(value):
        seen.append((value, connection.in_atomic_block))
        return "ok"

    table = handles(apply, prepare=prepare)
    arrive(make_place(), [make_record(0, note("x"))], table)
    lanes.drain(lanes_of_ready(), table)
    assert seen == [("prepare", False), ("X", True)]


def test_a_handler_with_prepare_alone_gives_the_outcome():
    table = handles(None, prepare=lambda message: f"sent {message.event.text}")
    arrive(make_place(), [make_record(n, note(str(n))) for n in range(3)], table)
    lanes.drain(lanes_of_ready(), table)
    outcomes = HandledMessage.objects.order_by("offset").values_list("outcome")
    assert [row[0] for row in outcomes] == ["sent 0", "sent 1", "sent 2"]


def test_a_lane_that_was_taken_over_refuses_its_old_holder():
    table = handles(lambda message: effect("from-the-victim") or "ok")
    arrive(make_place(), [make_record(0, note("x"))], table)
    lane_ids = lanes_of_ready()
    victim = leases.lease(lane_ids)
    claimed = inbox.claim(victim, 10)
    Lane.objects.filter(pk__in=lane_ids).update(lease_until="2020-01-01T00:00:00Z")
    thief = leases.lease(lane_ids)
    assert thief[0].epoch == victim[0].epoch + 1
    assert thief[0].suspect
    work = lanes.Work(claimed[0], table["note/1"], None)
    with pytest.raises(LaneLost):
        lanes._finish([work])
    with pytest.raises(LaneLost):
        inbox.give_back(claimed)
    assert not Source.objects.exists()
    assert leases.renew(victim) == []
    assert leases.renew(thief) == thief


def test_a_lost_group_is_taken_again_one_by_one_and_counts_once():
    table = handles(lambda message: "ok")
    arrive(make_place(), [make_record(n, note("x")) for n in range(3)], table)
    lane_ids = lanes_of_ready()
    inbox.claim(leases.lease(lane_ids), 10)
    Lane.objects.filter(pk__in=lane_ids).update(lease_until="2020-01-01T00:00:00Z")
    lanes.drain(lane_ids, table)
    assert HandledMessage.objects.filter(attempts=1).count() == 3
    assert not Attempt.objects.exists()


def test_a_message_that_killed_its_worker_alone_is_buried_after_its_attempts():
    table = handles(lambda message: "ok", retry=RetryPolicy(max_attempts=2))
    arrive(make_place(), [make_record(n, note("x")) for n in range(3)], table)
    lane_ids = lanes_of_ready()
    for _ in range(2):
        inbox.claim(leases.lease(lane_ids), 1, alone=True)
        Lane.objects.filter(pk__in=lane_ids).update(lease_until="2020-01-01T00:00:00Z")
    lanes.drain(lane_ids, table)
    letter = DeadLetter.objects.get()
    assert (letter.offset, letter.reason, letter.attempts) == (0, "worker_lost", 2)
    assert HandledMessage.objects.count() == 2


@real_transactions
def test_an_error_of_the_worker_itself_leaves_the_lane_to_expire():
    class Killed(BaseException):
        pass

    def apply(message):
        raise Killed

    table = handles(apply)
    arrive(make_place(), [make_record(0, note("x"))], table)
    with pytest.raises(Killed):
        lanes.drain(lanes_of_ready(), table)
    assert Lane.objects.filter(lease_until__isnull=False).count() == 1
    assert InboxMessage.objects.get().claim_epoch == 1


def test_an_unknown_schema_found_by_the_worker_is_a_dead_letter():
    table = handles(lambda message: "ok")
    arrive(make_place(), [make_record(0, note("x"))], table)
    lanes.drain(lanes_of_ready(), {})
    assert DeadLetter.objects.get().reason == "unknown_schema"
