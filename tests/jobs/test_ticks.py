"""Which instant does a schedule name? Tables with ids, both DST nights, two zones."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.jobs.ticks import Clocked, Crontab, Interval, latest_tick, next_tick

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
EVERY = {"hours": range(24), "days": range(1, 32), "months": range(1, 13)}


def cron(minute, hour=None, zone=UTC, **fields) -> Crontab:
    return Crontab(
        minutes=frozenset(minute if isinstance(minute, range) else [minute]),
        hours=frozenset(EVERY["hours"] if hour is None else [hour]),
        days=frozenset(fields.get("days", EVERY["days"])),
        months=frozenset(fields.get("months", EVERY["months"])),
        weekdays=frozenset(fields.get("weekdays", range(7))),
        zone=zone,
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ticks_between(schedule, start: datetime, end: datetime) -> list[datetime]:
    """Every tick a beat fires that looks once a minute, as its own memory sees them."""
    found, now = [], start
    while now < end:
        tick = latest_tick(schedule, now)
        if tick is not None and tick >= start and tick not in found:
            found.append(tick)
        now += timedelta(minutes=1)
    return found


@pytest.mark.parametrize(
    ("schedule", "now", "expected"),
    [
        pytest.param(
            cron(0), "2026-05-04T10:07:11", "2026-05-04T10:00", id="late-hourly"
        ),
        pytest.param(
            cron(0), "2026-05-04T10:00:00", "2026-05-04T10:00", id="on-the-second"
        ),
        pytest.param(cron(30, 4), "2026-05-04T04:29", "2026-05-03T04:30", id="daily"),
        pytest.param(
            cron(0, 9, BERLIN), "2026-07-01T07:00", "2026-07-01T07:00", id="summer-time"
        ),
        pytest.param(
            cron(0, 9, BERLIN), "2026-01-10T08:05", "2026-01-10T08:00", id="winter-time"
        ),
        pytest.param(
            cron(0, 0, days=[31]), "2026-04-30T12:00", "2026-03-31T00:00", id="the-31st"
        ),
        pytest.param(
            cron(0, 6, weekdays=[1]),
            "2026-05-10T12:00",
            "2026-05-04T06:00",
            id="mondays-asked-on-sunday",
        ),
        pytest.param(
            cron(0, 0, days=[1], months=[1]),
            "2026-12-31T23:59",
            "2026-01-01T00:00",
            id="once-a-year",
        ),
        pytest.param(
            cron(30, 2, BERLIN),
            "2026-03-29T12:00",
            "2026-03-29T01:00",
            id="berlin-wall-time-that-does-not-exist-is-the-next-valid-minute",
        ),
        pytest.param(
            cron(30, 2, NEW_YORK),
            "2026-03-08T12:00",
            "2026-03-08T07:00",
            id="new-york-wall-time-that-does-not-exist",
        ),
        pytest.param(
            cron(30, 2, BERLIN),
            "2026-10-25T12:00",
            "2026-10-25T00:30",
            id="berlin-wall-time-that-comes-twice-is-the-first",
        ),
        pytest.param(
            cron(30, 1, NEW_YORK),
            "2026-11-01T12:00",
            "2026-11-01T05:30",
            id="new-york-wall-time-that-comes-twice",
        ),
        pytest.param(
            Interval(timedelta(minutes=5)),
            "2026-05-04T10:07:11.5",
            "2026-05-04T10:05",
            id="interval-is-a-multiple-since-the-epoch",
        ),
        pytest.param(
            Interval(timedelta(days=7)),
            "2026-05-04T10:00",
            "2026-04-30T00:00",
            id="weekly-interval-since-a-thursday",
        ),
        pytest.param(
            Clocked(utc("2026-05-04T10:00")),
            "2026-05-04T10:00",
            "2026-05-04T10:00",
            id="clocked",
        ),
    ],
)
def test_latest_tick(schedule, now, expected):
    assert latest_tick(schedule, utc(now)) == utc(expected)


def test_a_clocked_tick_is_not_named_before_its_time():
    schedule = Clocked(utc("2026-05-04T10:00"))
    assert latest_tick(schedule, utc("2026-05-04T09:59")) is None
    assert next_tick(schedule, utc("2026-05-04T09:59")) == schedule.at
    assert next_tick(schedule, utc("2026-05-04T10:00")) is None


def test_a_date_that_never_comes_within_a_year_has_no_tick():
    leap_day = cron(0, 0, days=[29], months=[2])
    assert latest_tick(leap_day, utc("2026-05-04T00:00")) is None
    assert next_tick(leap_day, utc("2026-05-04T00:00")) is None


DST_NIGHTS = ["2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"]


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK], ids=str)
@pytest.mark.parametrize("day", DST_NIGHTS)
def test_an_hourly_job_has_24_ticks_in_every_utc_day(zone, day):
    start = utc(day)
    ticks = ticks_between(cron(0, zone=zone), start, start + timedelta(days=1))
    assert ticks == [start + timedelta(hours=hour) for hour in range(24)]


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK], ids=str)
@pytest.mark.parametrize("day", DST_NIGHTS)
@pytest.mark.parametrize("hour", [1, 2])
def test_a_daily_job_in_the_changing_hour_runs_once_a_day(zone, day, hour):
    midnight = datetime.fromisoformat(day).replace(tzinfo=zone)
    start, end = midnight - timedelta(days=1), midnight + timedelta(days=2)
    ticks = ticks_between(
        cron(30, hour, zone), start.astimezone(UTC), end.astimezone(UTC)
    )
    days = [tick.astimezone(zone).date() for tick in ticks]
    assert days == [(start + timedelta(days=n)).date() for n in range(3)]


SCHEDULES = st.sampled_from(
    [
        cron(0),
        cron(17, 3, BERLIN),
        cron(range(0, 60, 7), zone=NEW_YORK),
        cron(30, 2, BERLIN),
        cron(0, 0, weekdays=[6]),
        Interval(timedelta(seconds=90)),
        Interval(timedelta(hours=5)),
    ]
)
MOMENTS = st.datetimes(
    min_value=datetime(2025, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2028, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@given(SCHEDULES, MOMENTS)
def test_no_tick_lies_between_the_latest_and_the_next_one(schedule, now):
    latest, following = latest_tick(schedule, now), next_tick(schedule, now)
    assert latest is not None
    assert following is not None
    assert latest <= now < following
    assert next_tick(schedule, latest) == following
    assert latest_tick(schedule, following - timedelta(microseconds=1)) == latest
