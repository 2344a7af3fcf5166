"""May this tick run? Pure: rows as read under the lease lock in, a decision out.

Before it: `claim` reads the rows and the database's clock. After it: `claim` acts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from project.jobs.models import JobRun, State, Trigger

# A tick that far ahead of the database comes from a broken clock or a forged header.
MAX_AHEAD = timedelta(seconds=60)
MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What wants to run. `tick` None means now, on the database's clock."""

    job_key: str
    name: str
    arguments: dict[str, object]
    ttl_seconds: int
    trigger: str
    holder: str
    token_hash: str
    tick: datetime | None = None
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Run it. `queued` is the waiting row to use, `abandon` a dead run to close first."""

    attempt: int
    queued: JobRun | None = None
    abandon: JobRun | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The tick has its run: `run`. No row, the fence stays."""

    run: JobRun


@dataclass(frozen=True, slots=True)
class Refuse:
    """The tick does not start, and a row says why (unless `state` is empty)."""

    state: str
    reason: str
    holder: JobRun | None = None
    abandon: JobRun | None = None


Decision = Start | Duplicate | Refuse


def decide(
    request: Request,
    *,
    tick: datetime,
    now: datetime,
    paused: bool,
    runs: Sequence[JobRun],
) -> Decision:
    """`runs`: those of this tick, the one that is running, the newest scheduled one.

    The order matters: a duplicate is a duplicate even after the deadline.
    """
    of_tick = sorted((r for r in runs if r.tick == tick), key=lambda run: run.attempt)
    last = of_tick[-1] if of_tick else None
    if last is not None and has_its_run(last, now):
        return Duplicate(last)
    running = next((run for run in runs if run.state == State.RUNNING), None)
    if running is not None and not running.is_stale(now):
        return Refuse(State.SKIPPED, f"still running: {running.holder}", running)
    if refusal := _refuse(request, tick, now, paused, runs):
        return Refuse(refusal.state, refusal.reason, abandon=running)
    return _start(last, running)


def has_its_run(last: JobRun, now: datetime) -> bool:
    """Whether the newest row of a tick means that nobody else may start it."""
    if last.state == State.QUEUED:
        return False
    if last.state == State.RUNNING:
        return not last.is_stale(now)
    # Nothing was called while Redis was down: a late message may still run the tick.
    return last.state != State.STORE_DOWN


def _refuse(
    request: Request,
    tick: datetime,
    now: datetime,
    paused: bool,
    runs: Sequence[JobRun],
) -> Refuse | None:
    if tick > now + MAX_AHEAD:
        return Refuse("", f"the tick is {(tick - now).total_seconds():.0f} s ahead")
    if request.trigger != Trigger.SCHEDULE:
        return None
    if request.deadline is not None and now > request.deadline:
        late = (now - tick).total_seconds()
        return Refuse(State.EXPIRED, f"its message came {late:.0f} s after the tick")
    if paused:
        return Refuse(State.SKIPPED, "paused")
    if any(r.tick > tick and r.attempt and r.trigger == Trigger.SCHEDULE for r in runs):
        return Refuse(State.COALESCED, "a later tick has already started")
    return None


def _start(last: JobRun | None, running: JobRun | None) -> Decision:
    if last is None or last.attempt == 0:
        return Start(attempt=1, abandon=running)
    if last.state == State.QUEUED:
        return Start(attempt=last.attempt, queued=last, abandon=running)
    if last.attempt >= MAX_ATTEMPTS:
        reason = f"given up after {MAX_ATTEMPTS} attempts"
        return Refuse("", reason, abandon=running)
    return Start(attempt=last.attempt + 1, abandon=running)
