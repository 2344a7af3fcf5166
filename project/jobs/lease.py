"""★ The story: claim a tick → hold the lock → heartbeat → fenced writes → release.

Before it: a Celery message with its tick, a command or a click. After it: a `JobRun`
that says what happened. Redis makes losing cheap; PostgreSQL makes winning true.
"""

import hashlib
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from celery import current_task
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models.functions import Now
from prometheus_client import Counter

from project.jobs import lock
from project.jobs.claim import claim, lost_the_lock
from project.jobs.clocks import boottime, database_now
from project.jobs.decisions import Request
from project.jobs.heartbeat import Heartbeat
from project.jobs.keys import job_key
from project.jobs.models import JobRun, State, Trigger
from project.jobs.refusals import RUNS, Held, NotClaimed, record_outcome
from project.jobs.stopping import is_stopping, stop_on_sigterm

__all__ = [
    "Held",
    "Interrupted",
    "Lease",
    "LeaseLost",
    "NotClaimed",
    "StaleFence",
    "StoreDown",
    "hold",
]

logger = logging.getLogger(__name__)

LOST = Counter("drover_jobs_lost_total", "Runs that lost their lease.", ["job"])

# A holder frozen inside a batch keeps the lease row from its successor this long.
IDLE_IN_TRANSACTION_S = 10
STATEMENT_TIMEOUT_S = 30


class StoreDown(NotClaimed):
    """Redis does not answer, so nobody runs; the text names REDIS_URL."""


class StopRun(Exception):
    """Leave the job now; what is committed stays."""


class LeaseLost(StopRun):
    """Another run may have taken over: write nothing more."""


class StaleFence(LeaseLost):
    """The database refused a write: a newer run has the job. Nothing was written."""


class Interrupted(StopRun):
    """This process shuts down; the lease is still ours until the end of the run."""


class Lease:
    """A claimed run. Fetch outside, write inside `fenced()`, `check()` at each batch."""

    def __init__(self, run: JobRun, token: str, sent_at: float) -> None:
        self.run = run
        self.job_key = run.job_key
        self.tick = run.tick
        self.fence = run.fence
        self.counts: dict[str, int] = {}
        self._heartbeat = Heartbeat(run, token, sent_at, lambda: dict(self.counts))

    def check(self) -> None:
        """Raises LeaseLost when the lease is gone, Interrupted when we shut down."""
        if reason := self._heartbeat.lost_reason():
            raise LeaseLost(f"{self.job_key}: {reason}")
        if is_stopping():
            raise Interrupted(f"{self.job_key}: the process shuts down")

    def progress(self, **counts: int) -> None:
        """Set counts; they travel with the next heartbeat and the end of the run."""
        self.counts |= counts

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """A transaction that only the newest run of the job gets. Keep it short.

        FOR SHARE, not a plain read: a takeover waits until this batch is committed, and
        after a takeover no row is found. Raises StaleFence, or LeaseLost where the session
        was ended meanwhile; then nothing was written.
        """
        try:
            with transaction.atomic(durable=True):
                self._lock_fence()
                yield
        except (OperationalError, InterfaceError) as error:
            # A holder frozen in its batch finds its session ended by the time limit.
            if reason := self._heartbeat.lost_reason():
                raise LeaseLost(f"{self.job_key}: {reason}") from error
            raise

    def _lock_fence(self) -> None:
        idle = min(IDLE_IN_TRANSACTION_S, max(1, self.run.ttl_seconds // 2))
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{idle}s'")
            cursor.execute(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_S}s'")
            cursor.execute(
                "SELECT 1 FROM jobs_joblease WHERE job_key = %s AND fence = %s FOR SHARE",
                [self.job_key, self.fence],
            )
            if cursor.fetchone() is None:
                raise StaleFence(f"{self.job_key}: a newer run has the job")


@contextmanager
def hold(
    job: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    ttl: int = 30,
    trigger: str = Trigger.MANUAL,
    tick: datetime | None = None,
    deadline: datetime | None = None,
) -> Iterator[Lease]:
    """Run the body as the one run of this tick (default: now) of `job`.

    Raises Held when another run has it, StoreDown when Redis is away, NotClaimed when
    the tick may not start; in each case within about a second. `ttl` is in seconds.

        with hold("import-products", {"source_id": 3}, ttl=30) as lease:
            for page in pages:
                lease.check()
                with lease.fenced():
                    write(page)
    """
    named = dict(arguments or {})
    token = lock.new_token()
    request = Request(
        job_key=job_key(job, named),
        name=job,
        arguments=named,
        ttl_seconds=ttl,
        trigger=trigger,
        holder=holder_text(),
        token_hash=hashlib.sha256(token.encode()).hexdigest(),
        tick=tick,
        deadline=deadline,
    )
    sent_at = boottime()
    _acquire_or_refuse(request, token)
    try:
        lease = Lease(claim(request), token, sent_at)
        with _running(lease, job):
            yield lease
    finally:
        lock.release(request.job_key, token)


def _acquire_or_refuse(request: Request, token: str) -> None:
    try:
        if lock.acquire(request.job_key, token, request.ttl_seconds):
            return
    except lock.LockStoreDown as error:
        logger.error(  # noqa: TRY400 - one clear line; a traceback says no more
            "%s does not run: %s",
            request.job_key,
            error,
            extra={"action": "lock_store_down", "job_key": request.job_key},
        )
        now = database_now()
        if request.trigger != Trigger.MANUAL:
            record_outcome(
                request, State.STORE_DOWN, str(error), request.tick or now, now
            )
        raise StoreDown(f"{request.job_key}: {error}") from error
    raise lost_the_lock(request)


@contextmanager
def _running(lease: Lease, job: str) -> Iterator[None]:
    """Heartbeat around the body, and its end mapped to the state of the run."""
    lease._heartbeat.start()
    try:
        with stop_on_sigterm():
            yield
    except LeaseLost as error:
        LOST.labels(job).inc()
        _finish(lease, job, State.LOST, str(error))
        raise
    except Interrupted as error:
        _finish(lease, job, State.INTERRUPTED, str(error))
        raise
    except (SystemExit, KeyboardInterrupt) as error:
        _finish(lease, job, State.INTERRUPTED, type(error).__name__)
        raise
    except BaseException as error:
        _finish(lease, job, State.FAILED, f"{type(error).__name__}: {error}")
        raise
    if not _finish(lease, job, State.SUCCEEDED, ""):
        LOST.labels(job).inc()
        raise LeaseLost(f"{lease.job_key}: taken over before its end was recorded")


def _finish(lease: Lease, job: str, state: str, reason: str) -> bool:
    """Record the end, unless somebody else already closed the run; whether it was us."""
    lease._heartbeat.stop()
    try:
        is_ours = _record_end(lease, state, reason)
    except (OperationalError, InterfaceError):
        # The job may have broken its connection; the record deserves a fresh one.
        connection.close()
        is_ours = _record_end(lease, state, reason)
    if is_ours:
        RUNS.labels(job, state).inc()
    _log_end(lease, state, reason, is_ours=is_ours)
    return is_ours


def _log_end(lease: Lease, state: str, reason: str, *, is_ours: bool) -> None:
    logger.log(
        logging.INFO if state == State.SUCCEEDED and is_ours else logging.WARNING,
        "%s: the run of %s %s%s",
        lease.job_key,
        f"{lease.tick:%Y-%m-%d %H:%M:%SZ}",
        state if is_ours else f"ended ({state}) after another had taken over",
        f": {reason}" if reason else "",
        extra={
            "action": "run_finished",
            "job_key": lease.job_key,
            "state": state,
            "counts": lease.counts,
        },
    )


def _record_end(lease: Lease, state: str, reason: str) -> bool:
    mine = JobRun.objects.filter(
        pk=lease.run.pk, fence=lease.fence, state=State.RUNNING
    )
    changed = mine.update(
        state=state, reason=reason, counts=lease.counts, finished_at=Now()
    )
    return changed == 1


def holder_text() -> str:
    """host / process / task: for people; ownership is the token's business."""
    # current_task is a proxy: false outside of a task, whatever its type says.
    task_id = current_task.request.id if current_task else None  # type: ignore[truthy-bool]
    task = f"task {task_id}" if task_id else "command"
    return f"{socket.gethostname()} / pid {os.getpid()} / {task}"
