"""One transaction that makes a run true: lock the lease row, decide, let the fence grow.

Before it: `lock.acquire` made losing cheap. After it: `heartbeat` keeps the run alive.
Lock order everywhere: the lease row, then the run.
"""

import logging
from collections.abc import Sequence
from datetime import datetime

from django.db import OperationalError, connection, transaction
from django.db.models import Q, QuerySet
from prometheus_client import Counter

from project.jobs.clocks import database_now
from project.jobs.decisions import (
    Decision,
    Duplicate,
    Refuse,
    Request,
    Start,
    decide,
    has_its_run,
)
from project.jobs.models import JobLease, JobRun, State, Trigger

logger = logging.getLogger(__name__)

RUNS = Counter(
    "drover_jobs_runs_total",
    "Runs by how they ended, or never began.",
    ["job", "state"],
)
DUPLICATES = Counter(
    "drover_jobs_duplicates_total", "Claims of a tick that another server has.", ["job"]
)

# Longer than a batch of a frozen holder may keep the lease row (see `lease.fenced`).
LOCK_TIMEOUT_MS = 15_000


class NotClaimed(Exception):
    """This run does not happen; the text says why. Nothing is wrong with the job."""


class Held(NotClaimed):
    """Another run has the job or has had this tick; the text says which."""


def claim(request: Request) -> JobRun:
    """The running row that is now ours. Raises Held or NotClaimed.

    1. A plain look: a tick that has its run ends here and waits for nobody.
    2. Lock the lease row, read the database's clock, decide.
    3. Only a run that starts makes the fence grow.
    """
    if duplicate := _look(request):
        raise _held(request, duplicate)
    try:
        decision, run = _decide_and_act(request)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != "55P03":  # lock_not_available
            raise
        raise Held(f"{request.job_key}: another server is claiming it") from error
    if run is None:
        raise refusal(request, decision)
    return run


def _look(request: Request) -> Duplicate | None:
    if request.tick is None:
        return None
    last = _of_tick(request.job_key, request.tick).order_by("attempt").last()
    if last is None or not has_its_run(last, database_now()):
        return None
    return Duplicate(last)


@transaction.atomic(durable=True)
def _decide_and_act(request: Request) -> tuple[Decision, JobRun | None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
    lease = _locked_lease(request)
    now = database_now()
    tick = request.tick or now
    decision = decide(
        request,
        tick=tick,
        now=now,
        paused=lease.paused,
        runs=_relevant_runs(request.job_key, tick),
    )
    abandoned = None if isinstance(decision, Duplicate) else decision.abandon
    if abandoned is not None:
        _abandon(abandoned, now, request)
    if isinstance(decision, Start):
        return decision, _begin(request, lease, decision, tick, now)
    if isinstance(decision, Refuse):
        _record_refusal(request, decision, tick, now)
    return decision, None


def _locked_lease(request: Request) -> JobLease:
    lease = JobLease(
        job_key=request.job_key, name=request.name, arguments=request.arguments
    )
    JobLease.objects.bulk_create([lease], ignore_conflicts=True)
    return JobLease.objects.select_for_update().get(job_key=request.job_key)


def _of_tick(job_key: str, tick: datetime) -> QuerySet[JobRun]:
    return JobRun.objects.filter(job_key=job_key, tick=tick)


def _relevant_runs(job_key: str, tick: datetime) -> Sequence[JobRun]:
    runs = JobRun.objects.filter(job_key=job_key)
    newest = runs.filter(trigger=Trigger.SCHEDULE, attempt__gt=0)[:1]
    wanted = Q(tick=tick) | Q(state=State.RUNNING) | Q(pk__in=newest.values("pk"))
    return list(runs.filter(wanted))


def _abandon(run: JobRun, now: datetime, request: Request) -> None:
    silent = (now - run.heartbeat_at).total_seconds() if run.heartbeat_at else 0
    JobRun.objects.filter(pk=run.pk).update(
        state=State.ABANDONED,
        finished_at=now,
        reason=f"no heartbeat for {silent:.0f} s; taken over by {request.holder}",
    )
    RUNS.labels(request.name, State.ABANDONED).inc()
    logger.warning(
        "%s: %s was silent for %.0f s and is taken over",
        request.job_key,
        run.holder,
        silent,
        extra={"action": "run_abandoned", "job_key": request.job_key},
    )


def _begin(
    request: Request, lease: JobLease, start: Start, tick: datetime, now: datetime
) -> JobRun:
    lease.fence += 1
    lease.save(update_fields=["fence"])
    run = start.queued or JobRun(job_key=request.job_key, tick=tick)
    run.attempt, run.fence, run.state = start.attempt, lease.fence, State.RUNNING
    run.holder, run.token_hash = request.holder, request.token_hash
    run.ttl_seconds = request.ttl_seconds
    run.started_at = run.heartbeat_at = now
    run.trigger = run.trigger or request.trigger
    run.save()
    return run


def _record_refusal(
    request: Request, refusal: Refuse, tick: datetime, now: datetime
) -> None:
    """Attempt 0 of the tick, once; a queued run that cannot start ends here too."""
    if not refusal.state:
        return
    queued = _of_tick(request.job_key, tick).filter(state=State.QUEUED)
    ended = queued.update(state=refusal.state, reason=refusal.reason, finished_at=now)
    if ended or request.trigger == Trigger.MANUAL:
        return
    record_outcome(request, refusal.state, refusal.reason, tick, now)


def record_outcome(
    request: Request, state: str, reason: str, tick: datetime, now: datetime
) -> None:
    """A row for a tick that never starts; the first server to say so writes it."""
    outcome = {
        "state": state,
        "trigger": request.trigger,
        "finished_at": now,
        "reason": reason,
    }
    _row, is_first = JobRun.objects.get_or_create(
        job_key=request.job_key, tick=tick, attempt=0, defaults=outcome
    )
    if is_first:
        RUNS.labels(request.name, state).inc()


def lost_the_lock(request: Request) -> Held:
    """Who has it, after Redis said no. A run that overlaps ours is recorded as skipped.

    Only a *fresh* one: beside a dead run another server may hold the lock to claim
    this very tick, and a row written now would make it a duplicate.
    """
    duplicate = _look(request)
    if duplicate is not None:
        return _held(request, duplicate)
    now = database_now()
    running = JobRun.objects.filter(
        job_key=request.job_key, state=State.RUNNING
    ).first()
    if running is None or running.is_stale(now):
        holder = running.holder if running else "its claim is under way"
        return _held(request, Duplicate(running or JobRun(holder=holder)))
    overlap = Refuse(State.SKIPPED, f"still running: {running.holder}", running)
    with transaction.atomic(durable=True):
        _record_refusal(request, overlap, request.tick or now, now)
    return Held(str(refusal(request, overlap)))


def refusal(request: Request, decision: Decision) -> NotClaimed:
    """The exception of a claim that lost, after one counted line in the log."""
    if isinstance(decision, Duplicate):
        return _held(request, decision)
    reason = decision.reason if isinstance(decision, Refuse) else ""
    logger.info(
        "%s: the tick %s does not run: %s",
        request.job_key,
        _when(request),
        reason,
        extra={"action": "tick_refused", "job_key": request.job_key},
    )
    text = f"{request.job_key}: {reason}"
    if isinstance(decision, Refuse) and decision.holder is not None:
        return Held(text)
    return NotClaimed(text)


def _held(request: Request, duplicate: Duplicate) -> Held:
    run = duplicate.run
    DUPLICATES.labels(request.name).inc()
    text = f"{run.get_state_display()}: {run.holder or run.reason}"
    logger.info(
        "%s: another server has the tick %s (%s)",
        request.job_key,
        _when(request),
        text,
        extra={"action": "tick_duplicate", "job_key": request.job_key},
    )
    return Held(f"{request.job_key} {text}")


def _when(request: Request) -> str:
    return f"{request.tick:%Y-%m-%d %H:%M:%SZ}" if request.tick else "now"
