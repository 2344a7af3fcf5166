"""One transaction that makes a run true: lock the lease row, decide, let the fence grow.

Before it: `lock.acquire` made losing cheap. After it: `heartbeat` keeps the run alive.
Lock order everywhere: the lease row, then the run.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime

from django.db import OperationalError, connection, transaction
from django.db.models import Q

from project.jobs.clocks import database_now
from project.jobs.decisions import Decision, Refuse, Request, Start, decide, has_its_run
from project.jobs.models import JobLease, JobRun, State, Trigger
from project.jobs.refusals import RUNS, Held, held_by, record_refusal, refusal_of

logger = logging.getLogger(__name__)

# Longer than a batch of a frozen holder may keep the lease row (see `lease.fenced`).
LOCK_TIMEOUT_MS = 15_000
LOCK_NOT_AVAILABLE = "55P03"
# A claim takes a few milliseconds; a loser that waits this long can name its winner.
WAITS_FOR_THE_WINNER_S = (0.0, 0.005, 0.01, 0.02)


def claim(request: Request) -> JobRun:
    """The running row that is now ours. Raises Held or NotClaimed.

    1. A plain look: a tick that has its run ends here and waits for nobody.
    2. Lock the lease row, read the database's clock, decide.
    3. Only a run that starts makes the fence grow.
    """
    if done := _run_of_tick(request):
        raise held_by(request, done)
    try:
        decision, run = _decide_and_act(request)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        raise held_by(request, None) from error
    if run is None:
        raise refusal_of(request, decision)
    return run


def lost_the_lock(request: Request) -> Held:
    """Who has it, after Redis said no; a run that overlaps ours is recorded as skipped.

    The winner may still be claiming: it is waited for, but only for milliseconds.
    """
    for wait_seconds in WAITS_FOR_THE_WINNER_S:
        time.sleep(wait_seconds)
        if run := _run_of_tick(request) or _running(request.job_key):
            break
    else:
        return held_by(request, None)
    # A run by hand waits for no tick, so any run that is there overlaps it.
    by_hand = request.tick is None or request.trigger == Trigger.MANUAL
    is_overlap = by_hand or (request.tick is not None and run.tick < request.tick)
    if not is_overlap or run.is_stale(database_now()):
        return held_by(request, run)
    # Under the lease row's lock, or the winner's row and ours could contradict.
    decision, _ = _decide_and_act(request, may_start=False)
    lost = refusal_of(request, decision)
    return lost if isinstance(lost, Held) else Held(str(lost))


def _run_of_tick(request: Request) -> JobRun | None:
    """The row that makes this tick a duplicate; a plain look that waits for nobody."""
    if request.tick is None:
        return None
    runs = JobRun.objects.filter(job_key=request.job_key, tick=request.tick)
    last = runs.order_by("attempt").last()
    return last if last is not None and has_its_run(last, database_now()) else None


def _running(job_key: str) -> JobRun | None:
    return JobRun.objects.filter(job_key=job_key, state=State.RUNNING).first()


@transaction.atomic(durable=True)
def _decide_and_act(
    request: Request, *, may_start: bool = True
) -> tuple[Decision, JobRun | None]:
    """Lock the lease row, decide, and do what was decided, in one transaction."""
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
    if isinstance(decision, Refuse):
        _abandon(decision.abandon, now, request)
        record_refusal(request, decision, tick, now)
    elif isinstance(decision, Start) and may_start:
        _abandon(decision.abandon, now, request)
        return decision, _begin(request, lease, decision, tick, now)
    return decision, None


def _locked_lease(request: Request) -> JobLease:
    lease = JobLease(
        job_key=request.job_key, name=request.name, arguments=request.arguments
    )
    JobLease.objects.bulk_create([lease], ignore_conflicts=True)
    return JobLease.objects.select_for_update().get(job_key=request.job_key)


def _relevant_runs(job_key: str, tick: datetime) -> Sequence[JobRun]:
    runs = JobRun.objects.filter(job_key=job_key)
    newest = runs.filter(trigger=Trigger.SCHEDULE, attempt__gt=0)[:1]
    wanted = Q(tick=tick) | Q(state=State.RUNNING) | Q(pk__in=newest.values("pk"))
    return list(runs.filter(wanted))


def _abandon(run: JobRun | None, now: datetime, request: Request) -> None:
    if run is None:
        return
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
