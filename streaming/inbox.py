"""Every move of a message: claimed, done, put off, given up, given back, replayed.

Before it: `intake` recorded it; `lanes` runs what is claimed. After it: the tables. The
only module that moves an InboxMessage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from streaming import burial
from streaming.burial import Failure
from streaming.leases import CLAIMABLE, Held, fence
from streaming.models import Attempt, BlockedKey, DeadLetter, InboxMessage

READY, DEAD = InboxMessage.Status.READY, InboxMessage.Status.DEAD


class NotClaimedAnymore(Exception):
    """A finishing statement did not find its rows: roll back, someone was faster."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message in our hands. `lost`: an earlier holder died with it alone."""

    held: Held
    message: InboxMessage
    lost: bool


def claim(held: Sequence[Held], per_lane: int, *, alone: bool = False) -> list[Claimed]:
    """Claim messages of held lanes, in order. Raises LaneLost.

    The attempt is counted here, so that a killed worker counts too; a lost claim of many
    at once does not count, or one poison message would bury its neighbours.
    """
    by_lane = {lane.lane_id: lane for lane in held}
    with transaction.atomic(), connection.cursor() as sql:
        fence(held)
        sql.execute(
            f"""
            UPDATE streaming_inboxmessage i SET claim_epoch = l.epoch,
              claimed_in_group = %s,
              attempts = i.attempts + CASE WHEN i.claimed_in_group THEN 0 ELSE 1 END
            FROM streaming_lane l, streaming_inboxmessage old
            WHERE l.id = i.lane_id AND old.id = i.id AND i.id = ANY(ARRAY(
              SELECT s.id FROM unnest(%s::int[]) ln CROSS JOIN LATERAL (
                SELECT x.id FROM streaming_inboxmessage x
                WHERE x.lane_id = ln AND {CLAIMABLE}
                ORDER BY x.incarnation_id, x.partition, x."offset" LIMIT %s) s))
            RETURNING i.id,
              old.claim_epoch IS NOT NULL AND NOT old.claimed_in_group""",  # noqa: S608
            [not alone, sorted(by_lane), per_lane],
        )
        lost = dict(sql.fetchall())
        rows = InboxMessage.objects.select_related("incarnation__subscription")
        ordered = rows.filter(pk__in=lost).order_by(
            "lane_id", "incarnation_id", "partition", "offset"
        )
        return [Claimed(by_lane[m.lane_id], m, lost[m.pk]) for m in ordered]


def complete(done: Sequence[tuple[Claimed, str, str]]) -> None:
    """Move (claimed, handler, outcome) to the handled ones; the fence was passed before.

    Raises NotClaimedAnymore unless exactly these rows were still ready.
    """
    with connection.cursor() as sql:
        sql.execute(
            """
            WITH v AS (SELECT * FROM
                unnest(%s::bigint[], %s::text[], %s::text[]) AS v(id, handler, outcome)),
              gone AS (DELETE FROM streaming_inboxmessage i USING v
                WHERE i.id = v.id AND i.status = 0 RETURNING i.*, v.handler, v.outcome)
            INSERT INTO streaming_handledmessage (id, incarnation_id, partition, "offset",
              revision, key, key_hash, value, headers, ts_ms, received_at, attempts,
              replay_no, handler, outcome)
            SELECT id, incarnation_id, partition, "offset", revision, key, key_hash,
              value, headers, ts_ms, received_at, attempts, replay_no, handler, outcome
            FROM gone""",
            [
                [claimed.message.pk for claimed, _, _ in done],
                [handler for _, handler, _ in done],
                [outcome[:60] for _, _, outcome in done],
            ],
        )
        if sql.rowcount != len(done):
            raise NotClaimedAnymore
    for claimed, _, outcome in done:
        if claimed.message.replay_no or claimed.message.revision:
            _close_letters(claimed.message, outcome)


def _close_letters(message: InboxMessage, outcome: str) -> None:
    if message.revision:
        text = f"Revision {message.revision} was handled: {outcome}."
        burial.close_earlier(message, text)
    DeadLetter.objects.filter(message_id=message.pk).update(
        state=DeadLetter.State.REPLAYED,
        resolution=f"Handled: {outcome}.",
        resolved_at=Now(),
    )


def put_off(claimed: Claimed, after_s: float, failure: Failure) -> None:
    """Try again later; until then only its own key waits. Raises LaneLost."""
    message = claimed.message
    with transaction.atomic():
        fence([claimed.held])
        _move(message, not_before=Now() + timedelta(seconds=after_s))
        if message.key_hash is not None:
            # Written after the message, so the key is never free before it is.
            BlockedKey.objects.update_or_create(
                lane_id=message.lane_id,
                key_hash=message.key_hash,
                defaults={"until": Now() + timedelta(seconds=after_s)},
            )
        burial.attempt(
            message.pk,
            message.attempts,
            Attempt.Outcome.FAILED,
            failure,
            retry_after_s=after_s,
        )


def give_up(claimed: Claimed, failure: Failure, outcome: Attempt.Outcome) -> None:
    """Make it a dead letter, in the same transaction. Raises LaneLost."""
    message = claimed.message
    with transaction.atomic():
        fence([claimed.held])
        _move(message, status=DEAD)
        if message.key_hash is not None:
            BlockedKey.objects.filter(
                lane_id=message.lane_id, key_hash=message.key_hash
            ).delete()
        burial.attempt(message.pk, message.attempts, outcome, failure)
        burial.bury(message.incarnation.subscription_id, message, failure)


def give_back(claimed: Sequence[Claimed]) -> None:
    """Claimed but not run: the attempt does not count. Raises LaneLost."""
    if not claimed:
        return
    with transaction.atomic():
        fence(item.held for item in claimed)
        InboxMessage.objects.filter(
            pk__in=[item.message.pk for item in claimed], status=READY
        ).update(attempts=F("attempts") - 1, claim_epoch=None, claimed_in_group=False)


def _move(message: InboxMessage, **columns: object) -> None:
    moved = InboxMessage.objects.filter(pk=message.pk, status=READY).update(
        claim_epoch=None, claimed_in_group=False, **columns
    )
    if moved != 1:
        raise NotClaimedAnymore


def reopen(message_id: int) -> bool:
    """Send a dead message down the same path again; False if it is not dead."""
    return bool(
        InboxMessage.objects.filter(pk=message_id, status=DEAD).update(
            status=READY,
            attempts=0,
            not_before=None,
            claim_epoch=None,
            claimed_in_group=False,
            replay_no=F("replay_no") + 1,
        )
    )


def revise(message_id: int, value: bytes | None) -> InboxMessage:
    """A new revision of a dead message, ready; the original stays as it was.

    Raises InboxMessage.DoesNotExist when it is not dead.
    """
    original = InboxMessage.objects.select_for_update().get(pk=message_id, status=DEAD)
    same_record = InboxMessage.objects.filter(
        incarnation_id=original.incarnation_id,
        partition=original.partition,
        offset=original.offset,
    )
    newest = same_record.aggregate(newest=Max("revision"))["newest"]
    return InboxMessage.objects.create(
        incarnation_id=original.incarnation_id,
        partition=original.partition,
        offset=original.offset,
        revision=newest + 1,
        lane_id=original.lane_id,
        key=original.key,
        key_hash=original.key_hash,
        value=value,
        headers=original.headers,
        ts_ms=original.ts_ms,
    )
