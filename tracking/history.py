"""Buffer → Position rows. Idempotent: two flushers at once are harmless.

Before it: `tracking.live`, whose script appended each fix to the fleet's stream. After
it: the positions in the admin, and the `Device` columns with where it was last.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from prometheus_client import Counter

from tracking import history_sql, live
from tracking.filters import Outcome
from tracking.fixes import Fix
from tracking.models import Device

logger = logging.getLogger(__name__)

FLUSHED = Counter("drover_tracking_flushed", "Positions written to PostgreSQL.")
UNREADABLE = Counter(
    "drover_tracking_unreadable_records", "Buffered records that could not be read."
)
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Record:
    """One buffered thing: a fix with its outcome, a stop, or a stop with its fix.

    Times in milliseconds. `shown_ms` is 0 for a fix that did not move the marker.
    """

    device_id: int
    received_ms: int
    fix: Fix | None
    stored_ms: int = 0
    shown_ms: int = 0
    reason: str = ""
    door: str = ""
    is_stop: bool = False

    def dump(self) -> str:
        return orjson.dumps(asdict(self)).decode()


def record(
    device_id: int, fix: Fix | None, outcome: Outcome, received_ms: int, door: str
) -> Record:
    """What the buffer keeps of a judged fix."""
    return Record(
        device_id,
        received_ms,
        fix,
        outcome.stored_ms,
        outcome.shown_ms if outcome.shown else 0,
        outcome.reason,
        door,
    )


def stopped(
    device_id: int, fix: Fix | None, outcome: Outcome | None, now_ms: int, door: str
) -> Record:
    """What the buffer keeps of a stop; without an outcome its fix is not known new."""
    if fix is None:
        return Record(device_id, now_ms, None, door=door, is_stop=True)
    judged = outcome or Outcome("accepted", stored_ms=fix.fixed_at_ms)
    return replace(record(device_id, fix, judged, now_ms, door), is_stop=True)


def load(text: str) -> Record:
    """The record of `dump`; raises ValueError, KeyError or TypeError."""
    raw: dict[str, Any] = orjson.loads(text)
    fix = raw.pop("fix")
    return Record(fix=Fix(**fix) if fix else None, **raw)


def flush(fleet_id: int, check: Callable[[], None] = lambda: None) -> int:
    """Write what is buffered now, by batches; the number of new rows.

    `check` runs before each batch and may raise to end it. A batch leaves the buffer
    only after its transaction has committed.
    """
    newest, written = live.newest_buffered(fleet_id), 0
    while newest:
        check()
        entries = live.buffered(fleet_id, newest, BATCH)
        if not entries:
            break
        written += write(_readable(text for _entry_id, text in entries))
        live.drop_buffered(fleet_id, entries[-1][0])
    return written


def write(records: Sequence[Record]) -> int:
    """Insert what is not there yet and move the device columns, in one transaction."""
    if not records:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(history_sql.STAGE)
        cursor.execute(history_sql.EMPTY_STAGE)
        with cursor.copy(history_sql.COPY) as copy:
            for one in records:
                copy.write_row(_row(one))
        cursor.execute(history_sql.LOCK_DEVICES)
        cursor.execute(history_sql.INSERT)
        inserted = int(cursor.rowcount)
        cursor.execute(history_sql.SHOW)
        cursor.execute(history_sql.HEAR)
        cursor.execute(history_sql.STOP)
    FLUSHED.inc(inserted)
    return inserted


def mark_started(device_id: int, at_ms: int) -> None:
    """An explicit start: the device is active since then."""
    Device.objects.filter(pk=device_id).update(
        active=True, tracking_since=_moment(at_ms), stopped_at=None
    )


def settle_lost(fleet_id: int) -> int:
    """Save what is buffered; whoever Redis calls lost is not active here either.

    Not only who has just been announced: the database may have been away then, or the
    process that announced it has died. The number of devices that changed.
    """
    flush(fleet_id)
    since = timezone.now() - timedelta(seconds=settings.TRACKING_LIVE_TTL_S)
    silent = Device.objects.filter(
        Q(last_received_at=None) | Q(last_received_at__lt=since),
        Q(tracking_since=None) | Q(tracking_since__lt=since),
        fleet=fleet_id,
        active=True,
    )
    ids = list(silent.values_list("pk", flat=True))
    found = live.glimpses([(fleet_id, device_id) for device_id in ids])
    lost = [pk for pk, glimpse in zip(ids, found, strict=True) if glimpse is None]
    settled = silent.filter(pk__in=lost).update(active=False) if lost else 0
    if settled:
        logger.info(
            "devices went silent",
            extra={"action": "devices_lost", "fleet": fleet_id, "devices": settled},
        )
    return settled


def _readable(texts: Iterable[str]) -> list[Record]:
    records = []
    for text in texts:
        try:
            records.append(load(text))
        except (ValueError, KeyError, TypeError):
            # Only a foreign writer can leave one; it must not block the rest.
            UNREADABLE.inc()
            logger.exception("unreadable record", extra={"action": "record_dropped"})
    return records


def _row(one: Record) -> list[Any]:
    fix = one.fix
    place = (
        [
            _moment(one.stored_ms),
            fix.latitude,
            fix.longitude,
            fix.accuracy_m,
            fix.speed_mps,
            fix.course_deg,
            fix.altitude_m,
            fix.battery_pct,
        ]
        if fix
        else [None] * 8
    )
    shown = _moment(one.shown_ms) if one.shown_ms else None
    received = _moment(one.received_ms)
    return [one.device_id, received, *place, shown, one.reason, one.door, one.is_stop]


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=UTC)
