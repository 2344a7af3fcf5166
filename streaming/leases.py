"""Who may work on a lane: lease, fence, renew, release.

Before it: a nudge or the sweep named lanes. After it: `lanes` runs what they hold.
A lease is an epoch; a finishing transaction begins with the fence, which a thief's
FOR UPDATE cannot pass. All times are the database's.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import Error, connection

from streaming.burial import worker_name

LEASE_S = 30
MAX_LANES = 64

# A message that may be claimed now: ready, not waiting, its key not in back-off.
CLAIMABLE = """x.status = 0 AND (x.not_before IS NULL OR x.not_before <= now())
 AND NOT EXISTS (SELECT FROM streaming_blockedkey b
 WHERE b.lane_id = x.lane_id AND b.key_hash = x.key_hash AND b.until > now())"""


class LaneLost(Exception):
    """Another worker took a lane over: write nothing, leave it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lane in our hands. `suspect`: its last holder died with rows claimed."""

    lane_id: int
    epoch: int
    suspect: bool


def lease(lane_ids: Sequence[int]) -> list[Held]:
    """Take up to 64 of these lanes that are free and have something to claim."""
    with connection.cursor() as sql:
        sql.execute(
            f"""
            WITH p AS MATERIALIZED (
              SELECT l.id, l.lease_until IS NOT NULL AS suspect FROM streaming_lane l
              WHERE l.id = ANY(%s) AND (l.lease_until IS NULL OR l.lease_until < now())
                AND EXISTS (SELECT FROM streaming_inboxmessage x
                            WHERE x.lane_id = l.id AND {CLAIMABLE})
              ORDER BY l.id LIMIT %s FOR UPDATE OF l SKIP LOCKED)
            UPDATE streaming_lane l SET epoch = l.epoch + 1, holder = %s,
              lease_until = now() + make_interval(secs => %s)
            FROM p WHERE l.id = p.id RETURNING l.id, l.epoch, p.suspect""",  # noqa: S608
            [list(lane_ids), MAX_LANES, worker_name(), LEASE_S],
        )
        return sorted((Held(*row) for row in sql), key=lambda held: held.lane_id)


def fence(held: Iterable[Held]) -> None:
    """First statement of a writing transaction. Raises LaneLost unless all are ours.

    It also bounds how long the transaction may idle: a worker that was stopped inside
    one would keep its lanes, as nobody can take what is locked.
    """
    pairs = sorted({(lane.lane_id, lane.epoch) for lane in held})
    listed = ", ".join(["(%s, %s)"] * len(pairs))
    with connection.cursor() as sql:
        sql.execute(
            f"""SELECT set_config('idle_in_transaction_session_timeout', %s, true)
            FROM streaming_lane WHERE (id, epoch) IN ({listed})
            ORDER BY id FOR KEY SHARE""",  # noqa: S608
            [f"{LEASE_S}s", *(number for pair in pairs for number in pair)],
        )
        if len(sql.fetchall()) != len(pairs):
            raise LaneLost


def renew(held: Sequence[Held]) -> list[Held]:
    """Lease them anew; returns those that are still ours."""
    with connection.cursor() as sql:
        sql.execute(
            "UPDATE streaming_lane l"
            " SET lease_until = now() + make_interval(secs => %s)"
            " FROM unnest(%s::int[], %s::bigint[]) AS v(id, epoch)"
            " WHERE l.id = v.id AND l.epoch = v.epoch RETURNING l.id",
            [LEASE_S, *_columns(held)],
        )
        ours = {row[0] for row in sql}
    return [lane for lane in held if lane.lane_id in ours]


@contextmanager
def renewing(held: Callable[[], Sequence[Held]]) -> Iterator[None]:
    """Renew what `held` names in a thread meanwhile, however long one handler takes."""
    over = threading.Event()

    def work() -> None:
        # A short turn ends here, without a connection of the thread's own.
        while not over.wait(LEASE_S / 3):
            try:
                renew(held())
            except Error:
                # The fence tells; the next round may have a database again.
                connection.close()
        connection.close()

    thread = threading.Thread(target=work, name="streaming-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LEASE_S)


def release(held: Sequence[Held]) -> None:
    """Free those that are ours; rows of a dead holder keep a lane suspect."""
    with connection.cursor() as sql:
        sql.execute(
            "UPDATE streaming_lane l SET holder = '', lease_until ="
            " CASE WHEN v.suspect AND EXISTS (SELECT FROM streaming_inboxmessage x"
            "   WHERE x.lane_id = l.id AND x.status = 0 AND x.claim_epoch IS NOT NULL)"
            " THEN now() END"
            " FROM unnest(%s::int[], %s::bigint[], %s::bool[]) AS v(id, epoch, suspect)"
            " WHERE l.id = v.id AND l.epoch = v.epoch",
            [*_columns(held), [lane.suspect for lane in held]],
        )


def has_suspects(lane: Held) -> bool:
    """Whether rows that a dead holder had claimed are still unfinished."""
    with connection.cursor() as sql:
        sql.execute(
            "SELECT EXISTS (SELECT FROM streaming_inboxmessage WHERE lane_id = %s"
            " AND status = 0 AND claim_epoch < %s)",
            [lane.lane_id, lane.epoch],
        )
        return bool(sql.fetchone()[0])


def waiting(limit: int) -> list[int]:
    """Free lanes with something to claim: what the sweep nudges again."""
    with connection.cursor() as sql:
        sql.execute(
            f"""
            SELECT l.id FROM streaming_lane l
            WHERE (l.lease_until IS NULL OR l.lease_until < now())
              AND EXISTS (SELECT FROM streaming_inboxmessage x
                          WHERE x.lane_id = l.id AND {CLAIMABLE})
            LIMIT %s""",  # noqa: S608
            [limit],
        )
        return [row[0] for row in sql]


def _columns(held: Sequence[Held]) -> list[list[int]]:
    return [[lane.lane_id for lane in held], [lane.epoch for lane in held]]
