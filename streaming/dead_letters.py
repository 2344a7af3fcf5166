"""What people do with a dead letter: replay it, edit it as a revision, discard it.

Before it: an admin page. After it: `inbox` sends the message down the same path again,
through the same claim; nothing here has an effect of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from streaming import inbox
from streaming.models import DeadLetter, InboxMessage
from streaming.publisher import Nudger

NEW, REPLAYING = DeadLetter.State.NEW, DeadLetter.State.REPLAYING


class NotNew(Exception):
    """Someone else was faster: only a new letter can be replayed or discarded."""


@dataclass
class Result:
    """The letters that were changed, and those left alone with the reason."""

    changed: list[DeadLetter] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def with_followers(letters: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
    """Each with `is_followed`: whether a newer revision of its record died too."""
    newer = DeadLetter.objects.filter(
        incarnation=OuterRef("incarnation"),
        partition=OuterRef("partition"),
        offset=OuterRef("offset"),
        revision__gt=OuterRef("revision"),
    )
    return letters.annotate(is_followed=Exists(newer))


def siblings(letter: DeadLetter) -> QuerySet[DeadLetter]:
    """The letters of the other revisions of its record, oldest first."""
    same_record = DeadLetter.objects.filter(
        incarnation_id=letter.incarnation_id,
        partition=letter.partition,
        offset=letter.offset,
    )
    others = same_record.exclude(pk=letter.pk).select_related("subscription")
    return with_followers(others).order_by("revision")


def replay(letter_ids: Iterable[int], actor: str) -> Result:
    """Send the messages again, byte for byte. Those that are not new are skipped."""
    result, lane_ids = Result(), set()
    for letter_id in sorted(letter_ids):
        try:
            letter, lane_id = _replay_one(letter_id, actor)
        except NotNew as reason:
            result.skipped.append(str(reason))
        else:
            result.changed.append(letter)
            lane_ids.add(lane_id)
    # All at once: with Redis away each attempt takes its two seconds.
    _nudge(lane_ids)
    return result


@transaction.atomic
def edit(letter_id: int, value: bytes, actor: str) -> InboxMessage:
    """Replay with other bytes, as a new revision; the original stays as it came.

    Raises NotNew.
    """
    letter = _new(letter_id)
    try:
        message = inbox.revise(letter.message_id, value)
    except InboxMessage.DoesNotExist:
        raise NotNew(f"{letter}: its message is not dead.") from None
    letter.state = REPLAYING
    letter.resolution = f"Edited and sent again as revision {message.revision}."
    letter.resolved_by = actor
    letter.save()
    _nudge({message.lane_id})
    return message


def discard(letter_ids: Iterable[int], reason: str, actor: str) -> Result:
    """Close them by hand; the messages stay dead. Those that are not new are skipped."""
    result = Result()
    for letter_id in sorted(letter_ids):
        try:
            result.changed.append(_discard_one(letter_id, reason, actor))
        except NotNew as skipped:
            result.skipped.append(str(skipped))
    return result


@transaction.atomic
def _replay_one(letter_id: int, actor: str) -> tuple[DeadLetter, int]:
    """The letter, and the lane of its message. Raises NotNew."""
    letter = _new(letter_id)
    if not inbox.reopen(letter.message_id):
        raise NotNew(f"{letter}: its message is not dead.")
    letter.state = REPLAYING
    letter.replays += 1
    letter.resolution, letter.resolved_by = "Sent again.", actor
    letter.save()
    return letter, InboxMessage.objects.get(pk=letter.message_id).lane_id


@transaction.atomic
def _discard_one(letter_id: int, reason: str, actor: str) -> DeadLetter:
    letter = _new(letter_id)
    letter.state = DeadLetter.State.DISCARDED
    letter.resolution, letter.resolved_by = reason[:300], actor
    letter.resolved_at = Now()
    letter.save()
    letter.refresh_from_db()
    return letter


def _new(letter_id: int) -> DeadLetter:
    """The locked letter. Raises NotNew."""
    rows = DeadLetter.objects.select_for_update(of=("self",))
    letter = rows.select_related("subscription").filter(pk=letter_id).first()
    if letter is None:
        raise NotNew(f"Dead letter {letter_id} is gone.")
    if letter.state != NEW:
        raise NotNew(f"{letter} is already {letter.state}.")
    return letter


def _nudge(lane_ids: set[int]) -> None:
    transaction.on_commit(partial(_send, lane_ids), robust=True)


def _send(lane_ids: set[int]) -> None:
    nudger = Nudger()
    nudger.send(lane_ids)
    nudger.close()
