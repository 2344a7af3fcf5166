"""`manage.py jobs status|run`: what the admin's page of jobs shows and does, in a shell.

Before it: an operator or a script. After it: `overview` reads, `run_now` queues.
"""

import json
from argparse import ArgumentParser
from datetime import datetime
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError
from kombu.exceptions import OperationalError as BrokerDown

from project.jobs.badges import duration
from project.jobs.models import JobLease, JobRun, State
from project.jobs.overview import JobStatus, statuses
from project.jobs.scheduling import job_named

SCHEMA = "drover.jobs/1"
TRY_LATER = 75


class Command(BaseCommand):
    help = (
        "Scheduled jobs: what runs, what ran last, and run one now. "
        "Example: manage.py jobs run import-products:source_id=3. "
        "Exit codes: 0 done, 1 failure, 75 another run has the job."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        status = verbs.add_parser("status", help="list jobs with last run and holder")
        run = verbs.add_parser("run", help="queue one run of a job now")
        run.add_argument("job", help="the job's key, as `status` lists it")
        for verb in (status, run):
            verb.add_argument(
                "--format", choices=["text", "json"], default="text", help="(text)"
            )

    def handle(self, *_args: Any, **options: Any) -> None:
        verb = self.status if options["verb"] == "status" else self.run
        verb(**options)

    def status(self, *, format: str, **_: Any) -> None:  # noqa: A002 - the option's name
        found = statuses(JobLease.objects.all())
        if format == "json":
            self._print_json({"jobs": [_as_json(status) for status in found]})
            return
        if not found:
            self.stdout.write("No job has run and none is scheduled.")
        width = max((len(status.job.job_key) for status in found), default=0)
        for status in found:
            self.stdout.write(f"{status.job.job_key:<{width}}  {_as_text(status)}")

    def run(self, *, job: str, format: str, **_: Any) -> None:  # noqa: A002
        lease = JobLease.objects.filter(pk=job).first()
        task = job_named(lease.name) if lease else None
        if lease is None or task is None:
            self._fail(f"No job is called {job!r}; see `jobs status`.", 1, format)
        try:
            run = task.run_now(**lease.arguments)
        except BrokerDown as down:
            self._fail(f"Queued, but REDIS_URL does not answer: {down}", 1, format)
        if run.state == State.RUNNING:
            self._fail(f"{job} is running already: {run.holder}", TRY_LATER, format)
        if format == "json":
            self._print_json({"run": _run_json(run)})
        else:
            self.stdout.write(f"{job} is queued.")

    def _fail(self, reason: str, returncode: int, format: str) -> NoReturn:  # noqa: A002
        if format == "json":
            self._print_json({"error": reason})
        raise CommandError(reason, returncode=returncode)

    def _print_json(self, document: dict[str, Any]) -> None:
        self.stdout.write(json.dumps({"schema": SCHEMA} | document))


def _as_text(status: JobStatus) -> str:
    parts = [status.schedule_text or "by hand only"]
    if status.job.paused:
        parts.append("paused")
    if status.running:
        word = "no heartbeat from" if status.is_stale else "running on"
        parts.append(f"{word} {status.running.holder}")
    last = status.last
    if last is None:
        parts.append("never ran")
    else:
        took = f" in {duration(last.duration)}" if last.duration else ""
        why = f" ({last.reason})" if last.reason else ""
        parts.append(f"last {last.get_state_display()} at {_iso(last.tick)}{took}{why}")
    return "; ".join(parts)


def _as_json(status: JobStatus) -> dict[str, Any]:
    return {
        "job": status.job.job_key,
        "paused": status.job.paused,
        "fence": status.job.fence,
        "schedule": status.schedule_text,
        "next_tick": _iso(status.next_tick),
        "last_success": _iso(status.last_success),
        "running": _run_json(status.running),
        "is_stale": status.is_stale,
        "last": _run_json(status.last),
    }


def _run_json(run: JobRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "id": run.pk,
        "tick": _iso(run.tick),
        "attempt": run.attempt,
        "state": run.state,
        "trigger": run.trigger,
        "holder": run.holder,
        "started_at": _iso(run.started_at),
        "finished_at": _iso(run.finished_at),
        "counts": run.counts,
        "reason": run.reason,
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None
