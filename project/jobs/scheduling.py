"""The `@scheduled_job` decorator: a function becomes a Celery task, once per tick.

Before it: `beat` or a click on Run now, with a message that has its tick and deadline
in the headers. After it: `lease.hold`, in the worker.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Concatenate, ParamSpec

from celery import Task
from django.db import DatabaseError, transaction

from project import outages
from project.celery import app
from project.jobs.keys import bind_arguments, job_key
from project.jobs.lease import Lease, NotClaimed, StopRun, hold
from project.jobs.models import JobRun, State, Trigger
from project.jobs.queueing import is_queued, queue_run

logger = logging.getLogger(__name__)

P = ParamSpec("P")

TICK, DEADLINE, TRIGGER = "drover_tick", "drover_deadline", "drover_trigger"
QUEUE = "jobs"

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
            self._run_held(arguments, headers)
        except NotClaimed as refused:
            # Already a line in the log, a counter and a row; not a failure of the task.
            if is_queued(
                job_key(self.job_name, arguments), _instant(headers.get(TICK))
            ):
                self._send_again(arguments, str(refused))
        except StopRun:
            return
        except DatabaseError as error:
            if not (line := outages.describe(error)):
                raise
            self._send_again(arguments, line)

    def _run_held(self, arguments: dict[str, Any], headers: dict[str, Any]) -> None:
        with hold(
            self.job_name,
            arguments,
            ttl=self.ttl,
            trigger=headers.get(TRIGGER, Trigger.MANUAL),
            tick=_instant(headers.get(TICK)),
            deadline=_instant(headers.get(DEADLINE)),
        ) as lease:
            self.function(lease, **arguments)

    def _send_again(self, arguments: dict[str, Any], reason: str) -> None:
        """The same tick after a ttl: a lock or a run that broke off is over by then.

        The claim decides what becomes of it; a tick that has its end is a duplicate.
        """
        logger.warning(
            "%s; the message for %s comes again in %d s",
            reason,
            self.job_name,
            self.ttl,
            extra={"action": "tick_postponed"},
        )
        self.apply_async(
            kwargs=arguments,
            headers={
                name: value
                for name, value in (self.request.headers or {}).items()
                if name in {TICK, DEADLINE, TRIGGER}
            },
            expires=self.request.expires,
            countdown=self.ttl,
        )

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
