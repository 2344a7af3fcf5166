"""What runs, what ran last and what comes next: one reading for the admin and the command.

Before it: `JobLease`, `JobRun` and the schedules. After it: `admin`, `manage.py jobs`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from celery.schedules import crontab_parser
from django.db.models import Max
from django_celery_beat.models import PeriodicTask

from project.jobs.clocks import database_now
from project.jobs.entries import schedule_of
from project.jobs.models import JobLease, JobRun, State
from project.jobs.scheduling import job_of_task
from project.jobs.ticks import next_tick


@dataclass(slots=True)
class JobStatus:
    """One job at `now`, the database's clock."""

    job: JobLease
    now: datetime
    running: JobRun | None = None
    last: JobRun | None = None
    last_success: datetime | None = None
    schedules: list[PeriodicTask] = field(default_factory=list)

    @property
    def is_stale(self) -> bool:
        return self.running is not None and self.running.is_stale(self.now)

    @property
    def next_tick(self) -> datetime | None:
        ticks = [tick for row in self.schedules if (tick := next_run(row, self.now))]
        return min(ticks, default=None)

    @property
    def schedule_text(self) -> str:
        return ", ".join(words(row) for row in self.schedules)


def statuses(jobs: Iterable[JobLease]) -> list[JobStatus]:
    """One status per job, in the given order; four queries however many there are."""
    now = database_now()
    found = {job.job_key: JobStatus(job, now) for job in jobs}
    runs = JobRun.objects.filter(job_key__in=found)
    for run in runs.filter(state=State.RUNNING):
        found[run.job_key].running = run
    ended = runs.exclude(state__in=[State.RUNNING, State.QUEUED])
    newest = ended.order_by("job_key", "-tick", "-attempt").distinct("job_key")
    for run in newest:
        found[run.job_key].last = run
    succeeded = runs.filter(state=State.SUCCEEDED).order_by().values("job_key")
    for row in succeeded.annotate(at=Max("finished_at")):
        found[row["job_key"]].last_success = row["at"]
    for key, schedule in _enabled_schedules():
        if key in found:
            found[key].schedules.append(schedule)
    return list(found.values())


def _enabled_schedules() -> Sequence[tuple[str, PeriodicTask]]:
    rows = PeriodicTask.objects.filter(enabled=True).select_related(
        "interval", "crontab", "clocked", "solar"
    )
    return [(key, row) for row in rows if (key := key_of_schedule(row))]


def key_of_schedule(row: PeriodicTask) -> str:
    """The key of the job that a schedule starts; empty where it starts no job."""
    job = job_of_task(row.task)
    try:
        arguments = json.loads(row.args or "[]"), json.loads(row.kwargs or "{}")
        return job.key_of(*arguments[0], **arguments[1]) if job else ""
    except (ValueError, TypeError):
        return ""


def words(row: PeriodicTask) -> str:
    """A schedule as people say it: `every 30 seconds`, `At 04:00 UTC`."""
    if row.interval:
        return str(row.interval)
    if row.crontab:
        return str(row.crontab.human_readable)
    if row.clocked:
        return f"once at {row.clocked.clocked_time:%Y-%m-%d %H:%M} UTC"
    return "never: solar schedules are not supported"


def next_run(row: PeriodicTask, now: datetime) -> datetime | None:
    """The next tick of a schedule; None where it never comes or cannot be read."""
    try:
        return next_tick(schedule_of(row), now)
    except (ValueError, crontab_parser.ParseException):
        return None
