"""The `@scheduled_job` decorator, and the beat scheduler that stamps ticks.

Before it: a schedule that became due, or a click on Run now. After it: a message with
its tick and deadline in the headers; the worker hands both to `lease.hold`.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Concatenate, ParamSpec

from celery import Task
from celery.beat import SchedulingError
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone
from django_celery_beat.schedulers import DatabaseScheduler

from project import outages
from project.celery import app
from project.jobs.entries import TickEntry
from project.jobs.keys import bind_arguments, job_key
from project.jobs.lease import Lease, NotClaimed, StopRun, hold
from project.jobs.models import JobRun, State, Trigger
from project.jobs.queueing import queue_run
from project.jobs.ticks import next_tick

logger = logging.getLogger(__name__)

P = ParamSpec("P")

TICK, DEADLINE, TRIGGER = "drover_tick", "drover_deadline", "drover_trigger"
QUEUE = "jobs"
# The claim judges lateness on the database's clock and records it; the broker's expiry
# only clears a backlog, and leaves no record.
EXPIRY_AFTER_DEADLINE = timedelta(hours=1)
LEAST_MISFIRE = timedelta(seconds=60)
LONGEST_MISFIRE = timedelta(days=1)
# Beat looks again so long after it found the database or Redis away.
RETRY_S = 5.0

JOBS: dict[str, "ScheduledJob"] = {}


class ScheduledJob(Task):  # type: ignore[type-arg]
    """A Celery task that runs its function under a lease, once per tick."""

    abstract = True
    job_name: str
    ttl: int
    misfire_seconds: int | None
    function: Callable[..., None]

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Every job waits in the queue of jobs, whichever app it belongs to."""
        return super().apply_async(*args, **({"queue": QUEUE} | options))

    def run_job(self, *args: Any, **kwargs: Any) -> None:
        """A door: the message's tick in, the verb called, the outcome in `JobRun`.

        An exception of the job itself goes on to Celery, which logs its traceback.
        """
        arguments = self.arguments_of(*args, **kwargs)
        headers = self.request.headers or {}
        try:
            with hold(
                self.job_name,
                arguments,
                ttl=self.ttl,
                trigger=headers.get(TRIGGER, Trigger.MANUAL),
                tick=_instant(headers.get(TICK)),
                deadline=_instant(headers.get(DEADLINE)),
            ) as lease:
                self.function(lease, **arguments)
        except (NotClaimed, StopRun):
            # Already a line in the log, a counter and a row; not a failure of the task.
            return

    def run_now(self, *args: Any, **kwargs: Any) -> JobRun:
        """Queue a manual run, tick = the database's now; sent when this commits.

        A second call finds the queued run and sends it again; while one is running it
        is returned instead and nothing is queued. Raises TypeError on bad arguments.
        """
        arguments = self.arguments_of(*args, **kwargs)
        run = queue_run(self.job_name, arguments)
        if run.state == State.QUEUED:
            headers = {TICK: run.tick.isoformat(), TRIGGER: Trigger.MANUAL.value}
            transaction.on_commit(
                partial(self.apply_async, kwargs=arguments, headers=headers)
            )
        return run

    def arguments_of(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """By name, defaults filled in. Raises TypeError where they do not fit."""
        return bind_arguments(self.function, args, kwargs)

    def key_of(self, *args: Any, **kwargs: Any) -> str:
        return job_key(self.job_name, self.arguments_of(*args, **kwargs))


def scheduled_job(
    name: str, *, ttl: int = 30, misfire_seconds: int | None = None
) -> Callable[[Callable[Concatenate[Lease, P], None]], ScheduledJob]:
    """Make a function a job: a Celery task `<app>.<function>` that runs once per tick.

        @scheduled_job("import-products", ttl=30)
        def import_products(lease: Lease, source_id: int) -> None: ...

    `ttl` (seconds): a crash costs at most this. `misfire_seconds`: how late a tick may
    still start; by default until the next tick, at least a minute and at most a day.
    """

    def decorate(function: Callable[Concatenate[Lease, P], None]) -> ScheduledJob:
        if name in JOBS:
            raise ValueError(f"Two jobs are named {name!r}.")
        package = function.__module__.split(".", 1)[0]
        task: ScheduledJob = app.task(
            name=f"{package}.{function.__name__}",
            base=ScheduledJob,
            bind=True,
            lazy=False,
            typing=False,
            job_name=name,
            ttl=ttl,
            misfire_seconds=misfire_seconds,
            function=staticmethod(function),
        )(_run)
        JOBS[name] = task
        return task

    return decorate


@cache
def _load_tasks() -> None:
    """Import every app's `tasks`, once; a worker and a beat have done so at their start.

    Not `import_default_modules`: it would set Django up again, logging included.
    """
    app.autodiscover_tasks(force=True)


def job_named(name: str) -> ScheduledJob | None:
    """The job of that name, with every app's tasks loaded; None for an unknown one."""
    _load_tasks()
    return JOBS.get(name)


def job_of_task(task: str) -> ScheduledJob | None:
    """The job behind a Celery task name; None where the task is no job."""
    _load_tasks()
    found = app.tasks.get(task)
    return found if isinstance(found, ScheduledJob) else None


def _run(self: ScheduledJob, *args: Any, **kwargs: Any) -> None:
    self.run_job(*args, **kwargs)


def _instant(header: str | None) -> datetime | None:
    return datetime.fromisoformat(header).astimezone(UTC) if header else None


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
