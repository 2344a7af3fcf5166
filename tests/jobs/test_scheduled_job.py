"""The decorator: a Celery task that runs once per tick."""

import json
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from project.jobs import lock
from project.jobs.lease import Lease, hold
from project.jobs.models import JobLease, JobRun, State
from project.jobs.scheduling import JOBS, scheduled_job
from project.redis import sync_client
from tests.jobs.outages import database_away

pytestmark = pytest.mark.django_db(transaction=True)

seen: list[tuple[int, str]] = []


@scheduled_job("test-shop", ttl=5)
def visit_shop(lease: Lease, source_id: int, mode: str = "full") -> None:
    seen.append((source_id, mode))
    lease.progress(seen=1)


@pytest.fixture(autouse=True)
def _forget():
    seen.clear()


def run_tick(tick, deadline=None, **kwargs):
    """What a worker does with a message of the beat scheduler."""
    headers = {"drover_tick": tick.isoformat(), "drover_trigger": "schedule"}
    if deadline:
        headers["drover_deadline"] = deadline.isoformat()
    visit_shop.apply(kwargs=kwargs, headers=headers, throw=True)


def test_the_task_is_named_after_app_and_function():
    assert visit_shop.name == "tests.visit_shop"
    assert JOBS["test-shop"] is visit_shop


def test_a_tick_runs_once_however_often_its_message_comes():
    tick = timezone.now().replace(microsecond=0)
    for _ in range(3):
        run_tick(tick, source_id=3)
    assert seen == [(3, "full")]
    run = JobRun.objects.get()
    assert (run.tick, run.state, run.trigger) == (tick, State.SUCCEEDED, "schedule")
    assert run.job_key == 'test-shop:mode="full",source_id=3'


def test_a_tick_past_its_deadline_is_recorded_as_expired():
    tick = timezone.now() - timedelta(hours=1)
    run_tick(tick, tick + timedelta(minutes=1), source_id=3)
    assert seen == []
    assert JobRun.objects.get().state == State.EXPIRED


def test_a_tick_more_than_a_minute_ahead_is_refused():
    run_tick(timezone.now() + timedelta(minutes=5), source_id=3)
    assert seen == []
    assert not JobRun.objects.exists()


def test_run_now_queues_one_run_and_a_second_press_finds_it():
    first = visit_shop.run_now(source_id=3)
    assert visit_shop.run_now(source_id=3).pk == first.pk
    assert first.state == State.QUEUED
    visit_shop.apply(
        kwargs={"source_id": 3},
        headers={"drover_tick": first.tick.isoformat(), "drover_trigger": "manual"},
        throw=True,
    )
    first.refresh_from_db()
    assert (first.state, first.trigger, first.attempt) == ("succeeded", "manual", 1)
    assert seen == [(3, "full")]


def test_with_redis_down_nobody_runs_and_the_tick_says_so_once(
    settings, caplog, unused_port
):
    settings.REDIS_URLS = settings.REDIS_URLS | {
        "jobs": f"redis://127.0.0.1:{unused_port}/2"
    }
    tick = timezone.now()
    started = time.monotonic()
    run_tick(tick, source_id=3)
    assert time.monotonic() - started < 1.5
    run_tick(tick, source_id=3)
    assert seen == []
    run = JobRun.objects.get()
    assert (run.state, run.attempt, run.tick) == (State.STORE_DOWN, 0, tick)
    lines = [r for r in caplog.records if getattr(r, "action", "") == "lock_store_down"]
    assert len(lines) == 2
    assert f"REDIS_URL (127.0.0.1:{unused_port})" in lines[0].getMessage()
    assert lines[0].exc_info is None


def test_a_late_message_runs_the_tick_once_redis_is_back(settings, unused_port):
    reachable = settings.REDIS_URLS
    settings.REDIS_URLS = reachable | {"jobs": f"redis://127.0.0.1:{unused_port}/2"}
    tick = timezone.now()
    run_tick(tick, source_id=3)
    settings.REDIS_URLS = reachable
    run_tick(tick, source_id=3)
    assert seen == [(3, "full")]
    states = JobRun.objects.order_by("attempt").values_list("attempt", "state")
    assert list(states) == [(0, "store_down"), (1, "succeeded")]


def test_with_the_database_away_the_message_comes_again_with_its_tick(caplog):
    tick = timezone.now() - timedelta(seconds=1)
    with sync_client("broker") as broker:
        broker.delete("jobs")
        with database_away():
            run_tick(tick, tick + timedelta(minutes=1), source_id=3)
        [message] = [json.loads(raw) for raw in broker.lrange("jobs", 0, -1)]
    assert seen == []
    headers = message["headers"]
    assert (headers["drover_tick"], headers["drover_trigger"]) == (
        tick.isoformat(),
        "schedule",
    )
    assert headers["eta"]
    [line] = [r for r in caplog.records if r.action == "tick_postponed"]
    assert "DATABASE_URL (" in line.getMessage()
    assert line.exc_info is None


def test_a_paused_job_skips_its_tick_and_still_runs_by_hand():
    run_tick(timezone.now() - timedelta(seconds=1), source_id=3)
    JobLease.objects.update(paused=True)
    run_tick(timezone.now(), source_id=3)
    visit_shop(source_id=3)
    states = JobRun.objects.order_by("tick").values_list("state", "reason", "trigger")
    assert list(states) == [
        ("succeeded", "", "schedule"),
        ("skipped", "paused", "schedule"),
        ("succeeded", "", "manual"),
    ]


def test_the_same_arguments_have_the_same_key_however_they_are_given():
    assert visit_shop.key_of(3) == visit_shop.key_of(mode="full", source_id=3)
    assert visit_shop.key_of(3) != visit_shop.key_of("3")
    assert len(visit_shop.key_of("x" * 500)) < 100


def test_arguments_that_do_not_fit_are_refused_before_anything_is_queued():
    with pytest.raises(TypeError, match="unexpected"):
        visit_shop.run_now(source_id=3, colour="red")
    assert not JobRun.objects.exists()


def test_a_press_that_a_newer_tick_overtook_does_not_wait_for_ever():
    pressed = visit_shop.run_now(source_id=3)
    key = {"source_id": 3, "mode": "full"}
    with hold("test-shop", key, ttl=5, trigger="schedule"):
        visit_shop.apply(
            kwargs={"source_id": 3},
            headers={"drover_tick": pressed.tick.isoformat()},
            throw=True,
        )
    pressed.refresh_from_db()
    assert pressed.state == State.SKIPPED
    assert "still running" in pressed.reason


def test_a_press_whose_lock_nobody_claimed_comes_again():
    """The claimer died between the Redis lock and its claim."""
    pressed = visit_shop.run_now(source_id=3)
    assert lock.acquire(pressed.job_key, lock.new_token(), 5)
    with sync_client("broker") as broker:
        broker.delete("jobs")
        visit_shop.apply(
            kwargs={"source_id": 3},
            headers={"drover_tick": pressed.tick.isoformat()},
            throw=True,
        )
        [message] = [json.loads(raw) for raw in broker.lrange("jobs", 0, -1)]
    assert message["headers"]["drover_tick"] == pressed.tick.isoformat()
    pressed.refresh_from_db()
    assert pressed.state == State.QUEUED
