"""The tick does not run: a counted line in the log, and a row where nobody has one yet.

Before it: `claim` decided, or Redis said no. After it: the exception that ends the task.
"""

import logging
from datetime import datetime

from prometheus_client import Counter

from project.jobs.decisions import Decision, Duplicate, Refuse, Request
from project.jobs.models import JobRun, State, Trigger

logger = logging.getLogger(__name__)

RUNS = Counter(
    "drover_jobs_runs_total",
    "Runs by how they ended, or never began.",
    ["job", "state"],
)
DUPLICATES = Counter(
    "drover_jobs_duplicates_total", "Claims of a tick that another server has.", ["job"]
)


class NotClaimed(Exception):
    """This run does not happen; the text says why. Nothing is wrong with the job."""


class Held(NotClaimed):
    """Another run has the job or has had this tick; the text says which."""


def record_refusal(
    request: Request, refusal: Refuse, tick: datetime, now: datetime
) -> None:
    """Attempt 0 of the tick, once; a queued run that cannot start ends here instead."""
    if not refusal.state:
        return
    queued = JobRun.objects.filter(
        job_key=request.job_key, tick=tick, state=State.QUEUED
    )
    ended = queued.update(state=refusal.state, reason=refusal.reason, finished_at=now)
    if not ended and request.trigger != Trigger.MANUAL:
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


def refusal_of(request: Request, decision: Decision) -> NotClaimed:
    """The exception of a claim that lost, after one counted line in the log."""
    if isinstance(decision, Duplicate):
        return held_by(request, decision.run)
    if not isinstance(decision, Refuse):
        return held_by(request, None)
    logger.info(
        "%s: the tick %s does not run: %s",
        request.job_key,
        _when(request),
        decision.reason,
        extra={"action": "tick_refused", "job_key": request.job_key},
    )
    kind = NotClaimed if decision.holder is None else Held
    return kind(f"{request.job_key}: {decision.reason}")


def held_by(request: Request, run: JobRun | None) -> Held:
    """The exception of a duplicate, after the line that says who has the tick."""
    DUPLICATES.labels(request.name).inc()
    holder = "its claim is under way"
    if run is not None:
        holder = f"{run.get_state_display()}: {run.holder or run.reason}"
    logger.info(
        "%s: tick %s: another server has it (%s)",
        request.job_key,
        _when(request),
        holder,
        extra={"action": "tick_duplicate", "job_key": request.job_key},
    )
    return Held(f"{request.job_key}: {holder}")


def _when(request: Request) -> str:
    return f"{request.tick:%Y-%m-%d %H:%M:%SZ}" if request.tick else "now"
