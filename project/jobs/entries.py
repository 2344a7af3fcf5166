"""A row of django-celery-beat as beat sees it: due exactly at its ticks.

Before it: an operator's schedule in the admin. After it: `beat.TickScheduler`
stamps `due_tick` into the message.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.schedules import crontab_parser, schedstate
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import ModelEntry

from project.jobs.ticks import (
    Clocked,
    Crontab,
    Interval,
    Schedule,
    latest_tick,
    next_tick,
)

logger = logging.getLogger(__name__)

# Asked again at least this often, so that a clock step is noticed.
MAX_WAIT_S = 3600.0
# Beat's own clock was set back when the last firing lies further ahead than this.
CLOCK_STEP = timedelta(seconds=5)


def schedule_of(row: PeriodicTask) -> Schedule:
    """The pure schedule of a row. Raises ValueError for solar and for none at all."""
    if row.interval:
        every = timedelta(**{row.interval.period: row.interval.every})
        if every <= timedelta(0):
            raise ValueError(f"{row.name}: an interval must be positive.")
        return Interval(every)
    if row.clocked:
        return Clocked(row.clocked.clocked_time)
    if row.crontab:
        cron = row.crontab.schedule
        return Crontab(
            minutes=frozenset(cron.minute),
            hours=frozenset(cron.hour),
            days=frozenset(cron.day_of_month),
            months=frozenset(cron.month_of_year),
            weekdays=frozenset(cron.day_of_week),
            zone=row.crontab.timezone,
        )
    kind = "solar schedules are not supported" if row.solar else "no schedule is set"
    raise ValueError(f"{row.name}: {kind}.")


class TickEntry(ModelEntry):  # type: ignore[misc]
    """Fires once per tick of its schedule, the latest one when several were missed."""

    def __init__(self, model: PeriodicTask, app: Any = None) -> None:
        # First, and as ValueError: the scheduler then leaves out this row only.
        try:
            self.ticks = schedule_of(model)
        except (ValueError, crontab_parser.ParseException) as error:
            logger.error(  # noqa: TRY400 - an operator's mistake, not a crash
                "Not scheduled: %s", error, extra={"action": "schedule_refused"}
            )
            raise ValueError(str(error)) from error
        super().__init__(model, app=app)
        self.due_tick: datetime | None = None
        self.last_run_at: datetime = model.last_run_at

    def is_due(self) -> schedstate:
        """(due, seconds to the next look). Sets `due_tick` when due."""
        now = timezone.now()
        if self._has_ended(now):
            return schedstate(False, MAX_WAIT_S)
        self.due_tick = self._tick_to_fire(now)
        following = next_tick(self.ticks, now)
        if following is None:
            return schedstate(self.due_tick is not None, MAX_WAIT_S)
        wait = min((following - now).total_seconds(), MAX_WAIT_S)
        return schedstate(self.due_tick is not None, wait)

    def _tick_to_fire(self, now: datetime) -> datetime | None:
        tick = latest_tick(self.ticks, now)
        if tick is None or (self.model.start_time and tick < self.model.start_time):
            return None
        last: datetime = self.last_run_at.astimezone(UTC)
        if last > now + CLOCK_STEP:
            last = self.last_run_at = self.model.last_run_at = now
        return tick if tick > last else None

    def _has_ended(self, now: datetime) -> bool:
        model = self.model
        if not model.enabled:
            return True
        is_over = model.expires is not None and now >= model.expires
        if is_over or (model.one_off and model.total_run_count > 0):
            self._disable(model)
            return True
        return False

    def _disable(self, model: PeriodicTask) -> None:
        """Only this field: another beat's or an operator's edit of the row survives."""
        model.enabled = False
        PeriodicTask.objects.filter(pk=model.pk).update(enabled=False)

    def save(self) -> None:
        """Only what beat itself knows; the stock entry writes the whole row back."""
        PeriodicTask.objects.filter(pk=self.model.pk).update(
            last_run_at=self.model.last_run_at,
            total_run_count=self.model.total_run_count,
        )
