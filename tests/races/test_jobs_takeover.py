"""A holder that dies, freezes or is slow: the job goes on, and nobody writes twice."""

import signal
import sys
import threading
import time

import pytest
from django.db import connections

from project.jobs import lock
from project.jobs.clocks import database_now
from project.jobs.lease import Held, LeaseLost, hold
from project.jobs.models import JobLease, JobRun, State
from tests.jobs.fault_proxy import FaultProxy
from tests.races.jobs_holder import JOB

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

TTL = 2
EXIT_CODES = {3, 4}


@pytest.fixture
def holder(processes):
    """Starts a process that holds the job and writes a row per batch."""

    def start(mode: str):
        command = [sys.executable, "-m", "tests.races.jobs_holder", mode, str(TTL)]
        process = processes.start("holder", command)
        processes.wait_for(lambda: written() > 2, what="the holder's first batches")
        return process

    return start


def written(fence: int | None = None) -> int:
    prefix = "written-" if fence is None else f"written-{fence}-"
    return JobLease.objects.filter(job_key__startswith=prefix).count()


def take_over(processes) -> JobRun:
    """Retry until the job is ours, as the next ticks would."""

    def attempt() -> JobRun | None:
        try:
            with hold(JOB, ttl=TTL) as lease:
                lease.check()
                return lease.run
        except Held:
            return None

    run: JobRun = processes.wait_for(attempt, timeout=15, what="the takeover")
    run.refresh_from_db()
    return run


def test_a_killed_worker_costs_one_ttl_and_its_run_is_abandoned(holder, processes):
    process = holder("check")
    dead = JobRun.objects.get(state=State.RUNNING)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=5)
    started = time.monotonic()
    run = take_over(processes)
    assert time.monotonic() - started < TTL + 3
    dead.refresh_from_db()
    assert (dead.state, dead.attempt) == (State.ABANDONED, 1)
    assert "no heartbeat" in dead.reason
    assert dead.finished_at is not None
    assert (run.state, run.fence) == (State.SUCCEEDED, dead.fence + 1)


def test_the_lock_of_a_killed_worker_frees_itself(holder, processes):
    process = holder("check")
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=5)
    left = lock.seconds_left(JOB)
    assert left is None or left <= TTL
    processes.wait_for(lambda: lock.seconds_left(JOB) is None, what="the free lock")


@pytest.mark.parametrize("mode", ["check", "blind"])
def test_a_frozen_holder_writes_nothing_after_the_takeover(holder, processes, mode):
    process = holder(mode)
    process.send_signal(signal.SIGSTOP)
    run = take_over(processes)
    before = written()
    process.send_signal(signal.SIGCONT)
    # Frozen between batches it finds a newer fence, inside one a closed session.
    assert process.wait(timeout=10) in EXIT_CODES, processes.log("holder")
    assert written() == before
    assert JobLease.objects.get(job_key=JOB).fence == run.fence
    assert JobRun.objects.filter(job_key=JOB, state=State.ABANDONED).count() == 1


def test_sigterm_ends_the_batch_records_interrupted_and_frees_the_lock(
    holder, processes
):
    process = holder("check")
    started = time.monotonic()
    process.terminate()
    assert process.wait(timeout=10) == 0
    assert time.monotonic() - started < 5
    run = JobRun.objects.get()
    assert (run.state, bool(run.reason)) == (State.INTERRUPTED, True)
    assert lock.seconds_left(JOB) is None


def test_a_slow_run_keeps_its_lock_past_several_ttls():
    refused: list[str] = []

    def contend() -> None:
        try:
            while not done.wait(0.2):
                try:
                    with hold(JOB, ttl=TTL):
                        refused.append("ran")
                except Held as held:
                    refused.append(str(held))
        finally:
            connections.close_all()

    done = threading.Event()
    contender = threading.Thread(target=contend)
    with hold(JOB, ttl=TTL) as lease:
        contender.start()
        ends_at = time.monotonic() + 2.5 * TTL
        while time.monotonic() < ends_at:
            lease.check()
            lease.progress(batches=lease.counts.get("batches", 0) + 1)
            time.sleep(0.05)
        assert not lease_is_stale(lease)
        done.set()
        contender.join(timeout=10)
    assert len(refused) > 5
    assert "ran" not in refused
    [run] = JobRun.objects.all()
    assert (run.state, run.counts) == (State.SUCCEEDED, lease.counts)


def lease_is_stale(lease) -> bool:
    return JobRun.objects.get(pk=lease.run.pk).is_stale(database_now())


@pytest.fixture
def proxy(settings):
    with FaultProxy(settings.REDIS_URLS["jobs"]) as running:
        settings.REDIS_URLS = settings.REDIS_URLS | {"jobs": running.url}
        yield running


def work_until(lease, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        lease.check()
        time.sleep(0.02)


def test_failed_renewals_are_retried_and_the_run_goes_on(proxy, caplog):
    with hold(JOB, ttl=3) as lease:
        proxy.cut()
        work_until(lease, 1.6)
        proxy.heal()
        work_until(lease, 2.4)
    actions = [getattr(record, "action", "") for record in caplog.records]
    assert actions.count("heartbeat_failed") >= 2
    assert JobRun.objects.get().state == State.SUCCEEDED


def test_without_any_renewal_the_job_stops_before_its_ttl_and_is_lost(proxy):
    started = time.monotonic()
    with pytest.raises(LeaseLost), hold(JOB, ttl=TTL) as lease:  # noqa: PT012
        proxy.cut()
        work_until(lease, 10)
    assert time.monotonic() - started < TTL + 1
    assert JobRun.objects.get().state == State.LOST


def test_an_emptied_redis_is_no_loss_and_the_own_token_is_set_again():
    with hold(JOB, ttl=TTL) as lease, lock.connect() as client:
        client.flushdb()
        work_until(lease, TTL)
        assert client.exists(f"lock:{JOB}")
        client.set(f"lock:{JOB}", "a claimant of the moment", ex=1)
        work_until(lease, TTL)
    assert JobRun.objects.get().state == State.SUCCEEDED
