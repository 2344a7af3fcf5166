"""A dead letter can be replayed, edited and discarded, each once, down the same path."""

import pytest
from django.db import transaction

from project.redis import sync_client
from streaming import dead_letters, lanes
from streaming.dead_letters import NotNew
from streaming.models import DeadLetter, HandledMessage, InboxMessage
from tests.streaming.builders import (
    arrive,
    handles,
    lanes_of_ready,
    make_place,
    make_record,
    note,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def letter():
    """Of a message that could not be decoded, at offset 7."""
    arrive(make_place(), [make_record(7, b"{broken")], handles())
    return DeadLetter.objects.get()


def drain(table):
    lanes.drain(lanes_of_ready(), table)


def test_a_replay_that_succeeds_closes_the_letter_and_keeps_the_bytes(letter):
    InboxMessage.objects.update(value=note("repaired by a deploy"))
    result = dead_letters.replay([letter.pk], "op")
    assert [row.pk for row in result.changed] == [letter.pk]
    letter.refresh_from_db()
    assert (letter.state, letter.replays, letter.resolved_by) == ("replaying", 1, "op")
    drain(handles(lambda message: "ok" if message.is_replay else "first time"))
    letter.refresh_from_db()
    assert (letter.state, letter.resolution) == ("replayed", "Handled: ok.")
    handled = HandledMessage.objects.get()
    assert (handled.pk, handled.replay_no) == (letter.message_id, 1)


@pytest.mark.django_db(transaction=True)
def test_a_selection_is_one_nudge_so_that_redis_is_waited_for_once():
    records = [make_record(n, b"{broken", key=b"%d" % n) for n in range(20)]
    arrive(make_place(), records, handles())
    ids = DeadLetter.objects.values_list("pk", flat=True)
    assert len(dead_letters.replay(ids, "op").changed) == 20
    with sync_client("broker") as client:
        assert client.llen("streaming") == 1


def test_a_letter_whose_message_is_gone_cannot_be_edited(letter):
    InboxMessage.objects.all().delete()
    with pytest.raises(NotNew, match="not dead"):
        dead_letters.edit(letter.pk, b"{}", "op")


def test_two_clicks_on_replay_send_it_once(letter):
    answers = [dead_letters.replay([letter.pk], "op") for _ in range(2)]
    assert [len(answer.changed) for answer in answers] == [1, 0]
    assert InboxMessage.objects.get().replay_no == 1


def test_a_replay_that_fails_again_is_new_again_in_the_same_row(letter):
    dead_letters.replay([letter.pk], "op")
    drain(handles())
    again = DeadLetter.objects.get()
    assert (again.pk, again.state, again.replays) == (letter.pk, "new", 1)
    assert again.attempts == 2
    assert again.last_failed_at >= again.first_failed_at


def test_an_edit_is_a_revision_and_the_original_stays(letter):
    message = dead_letters.edit(letter.pk, note("by hand"), "op")
    assert (message.offset, message.revision) == (7, 1)
    drain(handles(lambda message: f"did {message.event.text}"))
    letter.refresh_from_db()
    assert letter.state == "replayed"
    assert letter.resolution == "Revision 1 was handled: did by hand."
    original = InboxMessage.objects.get()
    assert bytes(original.value or b"") == b"{broken"
    assert HandledMessage.objects.get().uid != original.uid


def test_an_edit_that_fails_has_a_letter_of_its_own(letter):
    dead_letters.edit(letter.pk, b"{still broken", "op")
    drain(handles())
    letter.refresh_from_db()
    assert (letter.state, letter.resolution) == (
        "replayed",
        "Revision 1 failed again.",
    )
    second = DeadLetter.objects.get(state="new")
    assert second.revision == 1
    assert dead_letters.edit(second.pk, note("x"), "op").revision == 2


def test_a_discarded_letter_keeps_its_reason_and_is_not_replayed(letter):
    dead_letters.discard([letter.pk], "test data", "op")
    letter.refresh_from_db()
    assert (letter.state, letter.resolution) == ("discarded", "test data")
    result = dead_letters.replay([letter.pk], "op")
    assert not result.changed
    assert "already discarded" in result.skipped[0]


def test_a_second_replay_while_the_first_is_on_its_way_is_skipped(letter):
    dead_letters.replay([letter.pk], "one")
    result = dead_letters.replay([letter.pk, 10**9], "two")
    assert not result.changed
    assert len(result.skipped) == 2
    with pytest.raises(NotNew), transaction.atomic():
        dead_letters.edit(letter.pk, b"{}", "two")
