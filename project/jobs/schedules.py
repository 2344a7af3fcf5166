"""Seed a schedule once: what an operator changed afterwards stays as it is.

Before it: an app that wants its job to run by itself. After it: the row that the beat
scheduler reads and that people edit in the admin.
"""

import json
from typing import Any

from django.db import transaction
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from project.jobs.keys import job_key
from project.jobs.models import JobLease
from project.jobs.scheduling import job_of_task


@transaction.atomic
def ensure_interval(
    name: str, task: str, every_seconds: int, kwargs: dict[str, Any] | None = None
) -> PeriodicTask:
    """Run `task` at multiples of `every_seconds`, unless a schedule `name` exists."""
    interval, _ = IntervalSchedule.objects.get_or_create(
        every=every_seconds, period=IntervalSchedule.SECONDS
    )
    return _ensure(name, task, kwargs, {"interval": interval})


@transaction.atomic
def ensure_crontab(
    name: str,
    task: str,
    *,
    kwargs: dict[str, Any] | None = None,
    timezone: str = "UTC",
    **fields: str,
) -> PeriodicTask:
    """Run `task` at wall times, unless a schedule `name` exists.

    `fields`: minute, hour, day_of_month, month_of_year, day_of_week; "*" where left out.
    """
    crontab, _ = CrontabSchedule.objects.get_or_create(
        **dict.fromkeys(CRONTAB_FIELDS, "*") | fields, timezone=timezone
    )
    return _ensure(name, task, kwargs, {"crontab": crontab})


CRONTAB_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


def _ensure(
    name: str, task: str, kwargs: dict[str, Any] | None, schedule: dict[str, Any]
) -> PeriodicTask:
    row, _created = PeriodicTask.objects.get_or_create(
        name=name,
        defaults={"task": task, "kwargs": json.dumps(kwargs or {}), **schedule},
    )
    remember_job(row)
    return row


def remember_job(row: PeriodicTask) -> None:
    """Show the job of a schedule on the page of jobs before its first run."""
    job = job_of_task(row.task)
    if job is None:
        return
    args, kwargs = json.loads(row.args or "[]"), json.loads(row.kwargs or "{}")
    try:
        arguments = job.arguments_of(*args, **kwargs)
    except TypeError:
        # Its message will say so too; a schedule may be saved before its job is ready.
        return
    lease = JobLease(
        job_key=job_key(job.job_name, arguments), name=job.job_name, arguments=arguments
    )
    JobLease.objects.bulk_create([lease], ignore_conflicts=True)
