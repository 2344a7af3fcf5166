"""Many servers, one tick: exactly one run, whoever comes when."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

from project.jobs import lock
from project.jobs.claim import claim
from project.jobs.decisions import Request
from project.jobs.lease import Held, NotClaimed, hold
from project.jobs.models import JobLease, JobRun, State

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

JOB = "race-job"


def at_once(count: int, work: Callable[[], str]) -> list[str]:
    """What `count` threads answer that start `work` at the same moment."""
    barrier, answers = threading.Barrier(count), []

    def one() -> None:
        try:
            barrier.wait(timeout=10)
            answers.append(work())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return answers


def run_tick(tick) -> str:
    try:
        with hold(JOB, ttl=10, trigger="schedule", tick=tick) as lease:
            lease.check()
            return "ran"
    except Held:
        return "held"


def request(tick) -> Request:
    return Request(
        job_key=JOB,
        name=JOB,
        arguments={},
        ttl_seconds=10,
        trigger="schedule",
        holder="thread",
        token_hash="",
        tick=tick,
    )


def test_two_claimers_of_one_tick_make_one_run_and_one_step_of_the_fence():
    """Without Redis before it: PostgreSQL alone must be enough."""
    tick = timezone.now()

    def claimed() -> str:
        try:
            return f"fence {claim(request(tick)).fence}"
        except Held:
            return "held"

    assert sorted(at_once(2, claimed)) == ["fence 1", "held"]
    assert JobRun.objects.get().attempt == 1
    assert JobLease.objects.get(pk=JOB).fence == 1


def test_ten_claimants_of_ten_ticks_make_ten_runs():
    first = timezone.now().replace(microsecond=0) - timedelta(minutes=10)
    for minute in range(10):
        answers = at_once(10, lambda: run_tick(first + timedelta(minutes=minute)))  # noqa: B023
        assert sorted(answers) == ["held"] * 9 + ["ran"]
    assert JobRun.objects.filter(state=State.SUCCEEDED, attempt=1).count() == 10
    assert JobRun.objects.count() == 10
    assert JobLease.objects.get(pk=JOB).fence == 10


def test_a_late_loser_finds_the_lock_free_and_still_does_not_run(caplog):
    tick = timezone.now()
    assert run_tick(tick) == "ran"
    caplog.clear()
    caplog.set_level("INFO", "project.jobs")
    started = time.monotonic()
    assert run_tick(tick) == "held"
    assert time.monotonic() - started < 1
    [line] = [record for record in caplog.records if hasattr(record, "action")]
    assert line.action == "tick_duplicate"
    assert f"{tick:%H:%M:%S}" in line.getMessage()
    assert "pid" in line.getMessage()
    assert JobLease.objects.get(pk=JOB).fence == 1
    assert lock.seconds_left(JOB) is None


def test_a_tick_during_a_run_of_an_earlier_tick_is_skipped_once_and_says_why():
    tick = timezone.now()
    with hold(JOB, ttl=10, trigger="schedule", tick=tick - timedelta(minutes=1)):
        assert at_once(4, lambda: run_tick(tick)) == ["held"] * 4
    skipped = JobRun.objects.get(state=State.SKIPPED)
    assert (skipped.tick, skipped.attempt) == (tick, 0)
    assert "still running" in skipped.reason


def test_a_foreign_key_in_redis_holds_up_a_tick_but_never_the_next_one():
    with lock.connect() as client:
        client.set(f"lock:{JOB}", "somebody", px=100)
    assert run_tick(timezone.now()) == "held"
    deadline = time.monotonic() + 5
    while lock.seconds_left(JOB) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert run_tick(timezone.now()) == "ran"


def test_a_refused_claim_frees_the_lock_at_once():
    with (
        pytest.raises(NotClaimed, match="ahead"),
        hold(JOB, trigger="schedule", tick=timezone.now() + timedelta(hours=1)),
    ):
        pytest.fail("a tick from the future ran")
    assert lock.seconds_left(JOB) is None
