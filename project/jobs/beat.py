"""The beat scheduler: every beat stamps the same tick, and survives what it depends on.

Before it: `entries`, the operators' schedules as beat sees them. After it: a message
with its tick and deadline in the headers, for `scheduling.ScheduledJob`.
"""

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.beat import SchedulingError
from django.db import DatabaseError, close_old_connections
from django.utils import timezone
from django_celery_beat.schedulers import DatabaseScheduler

from project import outages
from project.jobs.entries import TickEntry
from project.jobs.models import Trigger
from project.jobs.scheduling import DEADLINE, TICK, TRIGGER
from project.jobs.ticks import next_tick

logger = logging.getLogger(__name__)

# The claim judges lateness on the database's clock and records it; the broker's expiry
# only clears a backlog, and leaves no record.
EXPIRY_AFTER_DEADLINE = timedelta(hours=1)
LEAST_MISFIRE = timedelta(seconds=60)
LONGEST_MISFIRE = timedelta(days=1)
# Everything is looked at again so long after the database or Redis was found away.
RETRY_S = 5.0


class TickScheduler(DatabaseScheduler):  # type: ignore[misc]
    """Every beat fires every tick and stamps the same instant; PostgreSQL picks one run."""

    Entry = TickEntry
    # On time.monotonic(): nothing is looked at before, after a service was away.
    retry_at = 0.0
    _last_timestamp: datetime | None = None

    def setup_schedule(self) -> None:
        """Nothing yet: the first tick reads the schedules, and survives an outage."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Seconds to the next look. Without the database nothing is sent: no worker
        could claim it; the tick is sent late instead."""
        if (left := self.retry_at - time.monotonic()) > 0:
            return left
        try:
            return float(super().tick(*args, **kwargs))
        except DatabaseError as error:
            return self._start_over(outages.describe(error) or str(error))

    def apply_entry(self, entry: TickEntry, producer: Any = None) -> None:
        """Send it; a message that Redis did not take is sent again a little later."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            if not (line := outages.describe(error.__context__ or error)):
                logger.exception("Not sent", extra={"action": "schedule_not_sent"})
                return
            # As if it had not been reserved.
            entry.model.last_run_at = entry.last_run_at
            entry.model.total_run_count -= 1
            self._start_over(line)
        else:
            self._dirty.add(entry.name)

    def reserve(self, entry: TickEntry) -> TickEntry:
        """The entry after this tick; written down only once its message is sent."""
        following: TickEntry = next(entry)
        if entry.name in self._schedule:
            # Stock keeps the old one there, due again whenever the heap is made anew.
            self._schedule[entry.name] = following
        return following

    def _start_over(self, reason: str) -> float:
        """Read all schedules anew, after a pause."""
        logger.error(
            "%s; beat tries again in %.0f s",
            reason,
            RETRY_S,
            extra={"action": "beat_paused"},
        )
        self.retry_at = time.monotonic() + RETRY_S
        self._initial_read, self._heap = True, None
        return RETRY_S

    def schedule_changed(self) -> bool:
        """Whether somebody edited a schedule. Raises DatabaseError, unlike the stock."""
        close_old_connections()
        before: datetime | None = self._last_timestamp
        now = self._last_timestamp = self.Changes.last_change()
        return bool(now and before and now > before)

    def install_default_entries(self, data: Any) -> None:
        """None: `celery.backend_cleanup` would come back at every start."""

    def enabled_models_qs(self) -> Any:
        """All of them: the stock query guesses time zones from a January offset."""
        return self.Model.objects.enabled().select_related(
            "interval", "crontab", "clocked", "solar"
        )

    def adjust(self, n: float | None, drift: float = 0.002) -> float | None:
        """Wake just after the tick, not 10 ms before it as the stock scheduler does."""
        return n + drift if n and n > 0 else n

    def apply_async(
        self,
        entry: TickEntry,
        producer: Any = None,
        advance: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Send the message with its tick and deadline, in UTC, in its headers."""
        # Not on `entry` itself: beat compares options to see whether a schedule changed.
        stamped = self.Entry(entry.model, app=self.app)
        stamped.options |= self._stamp(entry)
        if advance:
            self.reserve(entry)
            self._dirty.add(entry.name)
        return super().apply_async(stamped, producer=producer, advance=False, **kwargs)

    def _stamp(self, entry: TickEntry) -> dict[str, Any]:
        tick = entry.due_tick or timezone.now()
        deadline = tick + _misfire(self.app.tasks.get(entry.task), entry, tick)
        headers = {
            TICK: tick.astimezone(UTC).isoformat(),
            DEADLINE: deadline.astimezone(UTC).isoformat(),
            TRIGGER: Trigger.SCHEDULE.value,
        }
        return {
            "headers": entry.options.get("headers", {}) | headers,
            "expires": deadline + EXPIRY_AFTER_DEADLINE,
        }


def _misfire(task: Any, entry: TickEntry, tick: datetime) -> timedelta:
    seconds = getattr(task, "misfire_seconds", None)
    if seconds is not None:
        return timedelta(seconds=seconds)
    following = next_tick(entry.ticks, tick)
    window = following - tick if following else LONGEST_MISFIRE
    return min(max(window, LEAST_MISFIRE), LONGEST_MISFIRE)
