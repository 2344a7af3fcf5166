"""Run now: one waiting row per job, whoever presses and however often.

Before it: the admin, `manage.py jobs run`, `run_now()`. After it: the message that makes
`claim` turn the waiting row into a running one.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from project.jobs.clocks import database_now
from project.jobs.keys import job_key
from project.jobs.models import JobLease, JobRun, State, Trigger


@transaction.atomic
def queue_run(name: str, arguments: Mapping[str, Any]) -> JobRun:
    """The run that is live or waiting for this job, else a new queued one."""
    key = job_key(name, arguments)
    lease = JobLease(job_key=key, name=name, arguments=dict(arguments))
    JobLease.objects.bulk_create([lease], ignore_conflicts=True)
    JobLease.objects.select_for_update().get(job_key=key)
    now = database_now()
    runs = JobRun.objects.filter(job_key=key)
    running = runs.filter(state=State.RUNNING).first()
    if running is not None and not running.is_stale(now):
        return running
    queued = runs.filter(state=State.QUEUED).first()
    return queued or JobRun.objects.create(
        job_key=key, tick=now, attempt=1, state=State.QUEUED, trigger=Trigger.MANUAL
    )


def is_queued(key: str, tick: datetime | None) -> bool:
    """Whether somebody pressed Run now for this very tick, and it has not begun."""
    if tick is None:
        return False
    runs = JobRun.objects.filter(job_key=key, tick=tick, state=State.QUEUED)
    return runs.exists()
