"""The beat scheduler: several beats stamp one instant, and leave operators' edits alone."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import (
    ClockedSchedule,
    PeriodicTask,
    PeriodicTasks,
    SolarSchedule,
)
from kombu.exceptions import OperationalError as BrokerDown

from project.celery import app
from project.jobs.beat import RETRY_S, TickScheduler
from project.jobs.schedules import ensure_crontab, ensure_interval
from tests.jobs.outages import database_away

pytestmark = pytest.mark.django_db(transaction=True)

TASK = "tests.beat_task"
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _only_our_schedules():
    """Apps seed theirs after each migrate."""
    PeriodicTask.objects.all().delete()


@pytest.fixture
def sent(monkeypatch):
    """Messages as they would reach the broker, instead of a broker."""
    messages: list[dict[str, Any]] = []

    def send(self, name, args=None, kwargs=None, **options):
        messages.append({"task": name, "kwargs": kwargs, **options})

    monkeypatch.setattr(TickScheduler, "send_task", send)
    return messages


def beat() -> TickScheduler:
    scheduler = TickScheduler(app=app)
    # Its last sync would come at the end of pytest, when the database has gone.
    scheduler._finalize.cancel()
    return scheduler


def last_ran(row: PeriodicTask, moment: datetime) -> None:
    PeriodicTask.objects.filter(pk=row.pk).update(last_run_at=moment)


def tick_all(scheduler: TickScheduler) -> None:
    """One round of beat: everything that is due is sent."""
    for _ in range(10):
        if scheduler.tick() > 0:
            return


def test_two_beats_stamp_the_same_tick_and_deadline(sent):
    row = ensure_interval("every five minutes", TASK, 300, {"source_id": 3})
    last_ran(row, timezone.now() - HOUR)
    beats = [beat(), beat()]
    assert all(scheduler.schedule for scheduler in beats)
    for scheduler in beats:
        tick_all(scheduler)
    first, second = (message["headers"] for message in sent)
    assert first["drover_tick"] == second["drover_tick"]
    tick = datetime.fromisoformat(first["drover_tick"])
    assert tick.tzinfo == UTC
    assert tick.timestamp() % 300 == 0
    assert datetime.fromisoformat(first["drover_deadline"]) == tick + timedelta(
        minutes=5
    )
    assert first["drover_trigger"] == "schedule"
    assert sent[0]["kwargs"] == {"source_id": 3}
    assert sent[0]["expires"] == tick + timedelta(minutes=5) + HOUR


def test_an_hourly_crontab_seen_late_is_stamped_with_its_full_hour(sent):
    row = ensure_crontab("hourly", TASK, minute="0")
    last_ran(row, timezone.now() - 5 * HOUR)
    tick_all(beat())
    [message] = sent
    tick = datetime.fromisoformat(message["headers"]["drover_tick"])
    assert (tick.minute, tick.second) == (0, 0)
    assert timedelta(0) <= timezone.now() - tick <= HOUR


def test_a_tick_that_was_sent_is_not_sent_again_by_the_same_beat(sent):
    row = ensure_interval("daily", TASK, 86_400)
    last_ran(row, timezone.now() - 48 * HOUR)
    scheduler = beat()
    tick_all(scheduler)
    tick_all(scheduler)
    assert len(sent) == 1
    scheduler.sync()
    row.refresh_from_db()
    assert row.total_run_count == 1
    tick_all(beat())
    assert len(sent) == 1


def test_a_tick_that_could_not_be_sent_is_sent_when_redis_is_back(
    sent, monkeypatch, caplog
):
    row = ensure_interval("daily", TASK, 86_400)
    last_ran(row, timezone.now() - 48 * HOUR)
    scheduler = beat()
    with monkeypatch.context() as outage:
        outage.setattr(TickScheduler, "send_task", refuse)
        tick_all(scheduler)
        assert 0 < scheduler.tick() <= RETRY_S
    assert "REDIS_URL" in caplog.text
    assert not any(record.exc_info for record in caplog.records)
    monkeypatch.setattr(scheduler, "retry_at", 0.0)
    tick_all(scheduler)
    tick_all(scheduler)
    assert len(sent) == 1
    scheduler.sync()
    row.refresh_from_db()
    assert row.total_run_count == 1


def refuse(*_args, **_options):
    raise BrokerDown("Connection refused")


def test_beat_waits_for_a_database_that_is_away_and_then_goes_on(
    sent, monkeypatch, caplog
):
    row = ensure_interval("daily", TASK, 86_400)
    last_ran(row, timezone.now() - 48 * HOUR)
    with database_away():
        scheduler = beat()
        assert 0 < scheduler.tick() <= RETRY_S
    assert "DATABASE_URL" in caplog.text
    monkeypatch.setattr(scheduler, "retry_at", 0.0)
    tick_all(scheduler)
    assert len(sent) == 1
    scheduler.sync()
    # Due again, and away again: nothing is sent that no worker could claim.
    last_ran(row, timezone.now() - 48 * HOUR)
    PeriodicTasks.update_changed()
    with database_away():
        assert scheduler.tick() > 0
    monkeypatch.setattr(scheduler, "retry_at", 0.0)
    tick_all(scheduler)
    assert len(sent) == 2
    assert not any(record.exc_info for record in caplog.records)


def test_an_entry_becomes_due_exactly_at_its_next_tick():
    row = ensure_interval("every five minutes", TASK, 300)
    last_ran(row, timezone.now())
    entry = beat().schedule["every five minutes"]
    is_due, wait = entry.is_due()
    assert not is_due
    target = (timezone.now() + timedelta(seconds=wait)).timestamp()
    assert min(target % 300, 300 - target % 300) < 0.5


def test_a_new_schedule_waits_for_its_next_tick(sent):
    ensure_interval("daily", TASK, 86_400)
    tick_all(beat())
    assert sent == []


def test_a_clock_that_was_set_back_does_not_silence_a_schedule():
    row = ensure_interval("every minute", TASK, 60)
    last_ran(row, timezone.now() + 24 * HOUR)
    entry = beat().schedule["every minute"]
    assert entry.is_due().next <= 60
    assert entry.last_run_at <= timezone.now()


def test_a_clocked_schedule_fires_once_at_its_time(sent):
    at = timezone.now() - timedelta(seconds=5)
    row = PeriodicTask.objects.create(
        name="once",
        task=TASK,
        clocked=ClockedSchedule.objects.create(clocked_time=at),
        one_off=True,
    )
    last_ran(row, at - HOUR)
    scheduler = beat()
    tick_all(scheduler)
    assert [message["headers"]["drover_tick"] for message in sent] == [
        at.astimezone(UTC).isoformat()
    ]
    scheduler.sync()
    tick_all(beat())
    row.refresh_from_db()
    assert (len(sent), row.enabled) == (1, False)


def test_a_solar_schedule_is_refused_with_one_line_and_the_others_go_on(sent, caplog):
    PeriodicTask.objects.create(
        name="at sunset",
        task=TASK,
        solar=SolarSchedule.objects.create(event="sunset", latitude=53, longitude=-3),
    )
    row = ensure_interval("every minute", TASK, 60)
    last_ran(row, timezone.now() - HOUR)
    tick_all(beat())
    assert len(sent) == 1
    lines = [r.getMessage() for r in caplog.records if r.name == "project.jobs.entries"]
    assert lines == ["Not scheduled: at sunset: solar schedules are not supported."]


def test_beat_writes_back_only_what_it_knows_so_edits_survive(sent):
    row = ensure_interval("every minute", TASK, 60)
    last_ran(row, timezone.now() - HOUR)
    scheduler = beat()
    tick_all(scheduler)
    edited = {"enabled": False, "kwargs": json.dumps({"source_id": 9})}
    PeriodicTask.objects.filter(pk=row.pk).update(**edited)
    scheduler.sync()
    row.refresh_from_db()
    assert (row.enabled, json.loads(row.kwargs)) == (False, {"source_id": 9})
    assert row.last_run_at > timezone.now() - timedelta(minutes=1)


def test_no_schedule_appears_that_nobody_asked_for():
    before = set(PeriodicTask.objects.values_list("name", flat=True))
    beat()
    assert set(PeriodicTask.objects.values_list("name", flat=True)) == before


def test_seeding_again_leaves_what_an_operator_changed():
    row = ensure_interval("import shop", TASK, 3600, {"source_id": 3})
    PeriodicTask.objects.filter(pk=row.pk).update(enabled=False)
    again = ensure_interval("import shop", TASK, 60, {"source_id": 4})
    assert (again.pk, again.enabled) == (row.pk, False)
    assert again.interval.every == 3600
