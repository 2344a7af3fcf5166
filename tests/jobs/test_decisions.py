"""May this tick run? A table of what is there and what is decided."""

from datetime import UTC, datetime, timedelta

import pytest

from project.jobs.decisions import Duplicate, Refuse, Request, Start, decide
from project.jobs.models import JobRun, State

TICK = datetime(2026, 5, 4, 10, tzinfo=UTC)
EARLIER = TICK - timedelta(hours=1)
LATER = TICK + timedelta(hours=1)
NOW = TICK + timedelta(seconds=5)
DEADLINE = TICK + timedelta(minutes=10)


def request(trigger="schedule", deadline=DEADLINE) -> Request:
    return Request(
        job_key="import-products",
        name="import-products",
        arguments={},
        ttl_seconds=30,
        trigger=trigger,
        holder="a / pid 1 / task x",
        token_hash="",
        tick=TICK,
        deadline=deadline,
    )


def run(state, tick=TICK, attempt=1, silent_s=1.0, trigger="schedule") -> JobRun:
    return JobRun(
        tick=tick,
        state=state,
        attempt=attempt,
        ttl_seconds=30,
        heartbeat_at=NOW - timedelta(seconds=silent_s),
        trigger=trigger,
    )


def decided(runs, now=NOW, paused=False, **over):
    return decide(request(**over), tick=TICK, now=now, paused=paused, runs=runs)


TERMINAL = ["succeeded", "failed", "interrupted", "lost", "stalled", "abandoned"]


@pytest.mark.parametrize("state", [*TERMINAL, "skipped", "missed", "expired"])
def test_a_tick_that_has_its_outcome_is_a_duplicate(state):
    assert isinstance(decided([run(state)]), Duplicate)


def test_a_duplicate_is_a_duplicate_even_past_the_deadline():
    late = DEADLINE + timedelta(hours=1)
    assert isinstance(decided([run("succeeded")], now=late), Duplicate)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([], Start(1), id="nothing-there"),
        pytest.param([run("store_down", attempt=0)], Start(1), id="redis-was-down"),
        pytest.param([run("succeeded", EARLIER)], Start(1), id="earlier-tick-is-done"),
    ],
)
def test_a_tick_starts_as_its_first_attempt(runs, expected):
    assert decided(runs) == expected


def test_a_fresh_run_of_the_tick_is_a_duplicate():
    assert isinstance(decided([run("running")]), Duplicate)


def test_a_fresh_run_of_an_earlier_tick_makes_this_one_skipped():
    running = run("running", EARLIER)
    decision = decided([running])
    assert isinstance(decision, Refuse)
    assert (decision.state, decision.holder) == (State.SKIPPED, running)


def test_a_stale_run_of_the_tick_is_taken_over_as_the_next_attempt():
    stale = run("running", attempt=2, silent_s=31)
    assert decided([stale]) == Start(attempt=3, abandon=stale)


def test_a_fourth_attempt_is_not_made_and_the_stale_run_is_closed():
    stale = run("running", attempt=3, silent_s=31)
    decision = decided([stale])
    assert isinstance(decision, Refuse)
    assert decision.abandon is stale


def test_a_stale_run_of_an_earlier_tick_is_closed_by_the_next_one():
    stale = run("running", EARLIER, silent_s=31)
    assert decided([stale]) == Start(attempt=1, abandon=stale)


@pytest.mark.parametrize(
    ("over", "state"),
    [
        pytest.param({"now": DEADLINE + timedelta(seconds=1)}, "expired", id="late"),
        pytest.param({"paused": True}, "skipped", id="paused"),
        pytest.param({"now": TICK - timedelta(seconds=61)}, "", id="too-far-ahead"),
        pytest.param({"runs": [run("succeeded", LATER)]}, "coalesced", id="overtaken"),
    ],
)
def test_a_tick_is_refused(over, state):
    decision = decided(**({"runs": []} | over))
    assert isinstance(decision, Refuse)
    assert decision.state == state


def test_a_manual_run_knows_no_deadline_and_no_pause():
    late = DEADLINE + timedelta(days=1)
    assert decided([], now=late, paused=True, trigger="manual") == Start(1)


def test_a_queued_row_is_used_by_its_run():
    queued = run("queued", trigger="manual")
    assert decided([queued], trigger="manual") == Start(attempt=1, queued=queued)


def test_a_later_manual_run_does_not_make_a_tick_old():
    assert decided([run("succeeded", LATER, trigger="manual")]) == Start(1)
