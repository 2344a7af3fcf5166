"""A batch of records becomes rows: ready or dead, with the cursor, in one transaction.

Before it: `consumer` polled and decoded. After it: `inbox` moves the rows on. No Kafka.
"""

import base64
import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from django.db import DataError, connection, transaction
from psycopg.types.json import Jsonb

from streaming import burial
from streaming.burial import Failure
from streaming.cursors import Place
from streaming.kafka import Record, Spot
from streaming.models import LANES, InboxMessage, Subscription

TIMEOUTS = (
    "SELECT set_config('lock_timeout', '2s', true),"
    " set_config('statement_timeout', '5s', true),"
    " set_config('idle_in_transaction_session_timeout', '10s', true)"
)
COPY = (
    'COPY streaming_inboxmessage (incarnation_id, partition, "offset", lane_id, key,'
    " key_hash, value, headers, ts_ms) FROM STDIN"
)
COPY_TYPES = [
    *("int8", "int4", "int8", "int4", "bytea"),
    *("int8", "bytea", "jsonb", "int8"),
]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record with its place, and why it is dead on arrival if it is."""

    place: Place
    record: Record
    failure: Failure | None


@dataclass
class Recorded:
    """What one intake transaction did. `dropped` were recorded before."""

    ready: int = 0
    dead: int = 0
    dropped: int = 0
    lanes: set[int] = field(default_factory=set)
    next_offsets: dict[Spot, int] = field(default_factory=dict)

    def add(self, other: "Recorded") -> None:
        self.ready += other.ready
        self.dead += other.dead
        self.dropped += other.dropped
        self.lanes |= other.lanes
        self.next_offsets |= other.next_offsets


def key_hash(key: bytes) -> int:
    """64 bits, signed: what an index takes of a key of any length."""
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def lane_of(place: Place, record: Record) -> tuple[int, int | None]:
    """The lane id, and the hash that keeps its messages in order (null: unordered)."""
    order: int | None
    match place.ordering:
        case Subscription.Ordering.PARTITION:
            number, order = record.partition, record.partition
        case Subscription.Ordering.KEY if record.key is not None:
            number, order = zlib.crc32(record.key), key_hash(record.key)
        case _:
            number, order = record.offset, None
    return place.subscription_id * LANES + number % LANES, order


def record(arrivals: Sequence[Arrival]) -> Recorded:
    """Keep a batch; a record that the database refuses is kept as what is known of it.

    Raises django.db.Error when the database is away, and then nothing was kept.
    """
    try:
        return _record(arrivals)
    except DataError:
        if len(arrivals) == 1:
            return _record([_without_content(arrivals[0])])
    result = Recorded()
    for arrival in arrivals:
        result.add(record([arrival]))
    return result


def _record(arrivals: Iterable[Arrival]) -> Recorded:
    """Rows and cursors in one transaction.

    The row locks of the cursors are the fence: whoever comes second finds them moved and
    inserts nothing.
    """
    result = Recorded()
    ordered = sorted(arrivals, key=lambda a: (a.place.cursor_id, a.record.offset))
    with transaction.atomic():
        next_offsets = _lock_cursors({a.place.cursor_id for a in ordered})
        fresh = []
        for arrival in ordered:
            cursor_id, offset = arrival.place.cursor_id, arrival.record.offset
            if offset < next_offsets[cursor_id]:
                result.dropped += 1
                continue
            next_offsets[cursor_id] = offset + 1
            fresh.append(arrival)
            spot = (arrival.record.topic, arrival.record.partition)
            result.next_offsets[spot] = offset + 1
        _insert_ready([a for a in fresh if a.failure is None], result)
        _insert_dead([a for a in fresh if a.failure is not None], result)
        _move_cursors(next_offsets)
    return result


def backlog(limit: int) -> int:
    """Messages that are ready, counted no further than `limit`."""
    with connection.cursor() as sql:
        sql.execute(
            "SELECT count(*) FROM (SELECT FROM streaming_inboxmessage"
            " WHERE status = 0 LIMIT %s) x",
            [limit],
        )
        return int(sql.fetchone()[0])


def _lock_cursors(cursor_ids: set[int]) -> dict[int, int]:
    with connection.cursor() as sql:
        sql.execute(TIMEOUTS)
        sql.execute(
            "SELECT id, next_offset FROM streaming_cursor WHERE id = ANY(%s)"
            " ORDER BY id FOR UPDATE",
            [sorted(cursor_ids)],
        )
        return dict(sql.fetchall())


def _move_cursors(next_offsets: dict[int, int]) -> None:
    with connection.cursor() as sql:
        sql.execute(
            "UPDATE streaming_cursor c SET next_offset = v.next, moved_at = now()"
            " FROM unnest(%s::bigint[], %s::bigint[]) AS v(id, next)"
            " WHERE c.id = v.id AND c.next_offset <> v.next",
            [list(next_offsets), list(next_offsets.values())],
        )


def _insert_ready(arrivals: Sequence[Arrival], result: Recorded) -> None:
    if not arrivals:
        return
    # The end of a COPY raises past Django's cursor: its errors are wrapped here.
    wrap = connection.wrap_database_errors
    with wrap, connection.cursor() as sql, sql.copy(COPY) as copy:
        copy.set_types(COPY_TYPES)
        for arrival in arrivals:
            row = _row(arrival)
            copy.write_row(
                (
                    *(row.incarnation_id, row.partition, row.offset, row.lane_id),
                    *(row.key, row.key_hash, row.value, Jsonb(row.headers), row.ts_ms),
                )
            )
            result.lanes.add(row.lane_id)
    result.ready = len(arrivals)


def _insert_dead(arrivals: Sequence[Arrival], result: Recorded) -> None:
    rows = [_row(arrival) for arrival in arrivals]
    for row in rows:
        row.status, row.attempts = InboxMessage.Status.DEAD, 1
    burial.bury_invalid(
        [arrival.place.subscription_id for arrival in arrivals],
        InboxMessage.objects.bulk_create(rows),
        [arrival.failure for arrival in arrivals if arrival.failure is not None],
    )
    result.dead = len(rows)


def _row(arrival: Arrival) -> InboxMessage:
    record = arrival.record
    lane_id, order = lane_of(arrival.place, record)
    return InboxMessage(
        incarnation_id=arrival.place.incarnation_id,
        partition=record.partition,
        offset=record.offset,
        lane_id=lane_id,
        key=record.key,
        key_hash=order,
        value=record.value,
        headers=[
            [burial.storable(name), _text(value)] for name, value in record.headers
        ],
        ts_ms=record.ts_ms,
    )


def _without_content(arrival: Arrival) -> Arrival:
    """A poison record must never stop its partition, nor vanish."""
    value = arrival.record.value or b""
    digest = hashlib.sha256(value).hexdigest()
    failure = Failure(
        "unstorable",
        detail=f"The database refused it. Its value had {len(value)} bytes, SHA-256"
        f" {digest}.",
    )
    bare = replace(arrival.record, value=None, headers=[], ts_ms=-1)
    return Arrival(arrival.place, bare, failure)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")
