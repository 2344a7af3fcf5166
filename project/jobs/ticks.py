"""Which instant does a schedule name? Pure; UTC in, UTC out.

Before it: a row of django-celery-beat as a `Schedule`. After it: the beat entry fires
there and stamps it; nobody else ever computes a tick.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
SEARCH_DAYS = 366


@dataclass(frozen=True, slots=True)
class Interval:
    """Multiples of `every` since the epoch, the same on every server."""

    every: timedelta


@dataclass(frozen=True, slots=True)
class Crontab:
    """Wall times in `zone`. Weekdays: Sunday is 0. All three day fields must match."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    zone: tzinfo

    @property
    def names_every_hour(self) -> bool:
        return len(self.hours) == 24

    def names_day(self, day: date) -> bool:
        return (
            day.month in self.months
            and day.day in self.days
            and day.isoweekday() % 7 in self.weekdays
        )


@dataclass(frozen=True, slots=True)
class Clocked:
    """Once, at `at`."""

    at: datetime


Schedule = Interval | Crontab | Clocked


def latest_tick(schedule: Schedule, now: datetime) -> datetime | None:
    """The latest instant ≤ `now`; None where there is none in the last 366 days."""
    match schedule:
        case Interval(every):
            return EPOCH + (now - EPOCH) // every * every
        case Clocked(at):
            return at if at <= now else None
        case Crontab():
            today = now.astimezone(schedule.zone).date()
            days = (today + DAY - DAY * back for back in range(SEARCH_DAYS + 2))
            return _last(
                instant
                for day in days
                for instant in reversed(_instants(schedule, day))
                if instant <= now
            )


def next_tick(schedule: Schedule, now: datetime) -> datetime | None:
    """The first instant after `now`; None where there is none in the next 366 days."""
    match schedule:
        case Interval(every):
            return EPOCH + ((now - EPOCH) // every + 1) * every
        case Clocked(at):
            return at if at > now else None
        case Crontab():
            today = now.astimezone(schedule.zone).date()
            days = (today - DAY + DAY * ahead for ahead in range(SEARCH_DAYS + 2))
            return _last(
                instant
                for day in days
                for instant in _instants(schedule, day)
                if instant > now
            )


def _last(instants: Iterator[datetime]) -> datetime | None:
    return next(instants, None)


@lru_cache(maxsize=1024)
def _instants(crontab: Crontab, day: date) -> tuple[datetime, ...]:
    """Every instant the crontab names on one day of its zone, in order.

    A wall time that does not exist becomes the next valid minute, one that comes twice
    counts once, the first. A crontab that names every hour means "hourly", not a wall
    time: it keeps its rhythm through both nights.
    """
    if not crontab.names_day(day):
        return ()
    found: set[datetime] = set()
    for hour in crontab.hours:
        for minute in crontab.minutes:
            wall = datetime.combine(day, time(hour, minute), crontab.zone)
            found.update(_meanings(wall, hourly=crontab.names_every_hour))
    return tuple(sorted(found))


def _meanings(wall: datetime, *, hourly: bool) -> list[datetime]:
    first, second = wall.replace(fold=0), wall.replace(fold=1)
    if _exists(first):
        is_twice = first.utcoffset() != second.utcoffset()
        both = [first, second] if hourly and is_twice else [first]
        return [meaning.astimezone(UTC) for meaning in both]
    if hourly:
        return []
    while not _exists(first):
        first += MINUTE
    return [first.astimezone(UTC)]


def _exists(wall: datetime) -> bool:
    back = wall.astimezone(UTC).astimezone(wall.tzinfo)
    return back.replace(tzinfo=None) == wall.replace(tzinfo=None)
