"""A run from claim to release, seen in the database and in Redis."""

import pytest
from django.db import OperationalError, connection

from project.jobs.lease import Held, StaleFence, hold
from project.jobs.lock import seconds_left
from project.jobs.models import JobLease, JobRun, State

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "import-products:source_id=3"


def held(**over):
    return hold("import-products", {"source_id": 3}, **({"ttl": 5} | over))


def test_a_run_is_recorded_from_start_to_end():
    with held() as lease:
        lease.progress(seen=7, created=2)
        running = JobRun.objects.get()
        assert (running.state, running.job_key, running.fence) == ("running", KEY, 1)
        left = seconds_left(KEY)
        assert left is not None
        assert 4 < left <= 5
    run = JobRun.objects.get()
    assert (run.state, run.counts, run.attempt) == (
        "succeeded",
        {"seen": 7, "created": 2},
        1,
    )
    assert run.duration is not None
    assert seconds_left(KEY) is None


def test_an_exception_ends_the_run_as_failed_with_its_reason_and_frees_the_lock():
    with pytest.raises(ValueError, match="broken"), held():
        raise ValueError("broken")
    run = JobRun.objects.get()
    assert (run.state, run.reason) == (State.FAILED, "ValueError: broken")
    assert seconds_left(KEY) is None


def test_a_second_claimant_is_told_who_has_it_and_leaves_the_fence_as_it_was():
    with held() as lease, pytest.raises(Held, match="pid"), held():
        pytest.fail("two runs at once")
    assert JobLease.objects.get(pk=KEY).fence == lease.fence == 1
    assert JobRun.objects.count() == 1


def test_a_fenced_write_is_a_transaction_of_the_newest_run():
    with held() as lease, lease.fenced():
        JobLease.objects.create(job_key="other", name="other")
    assert JobLease.objects.filter(job_key="other").exists()


def test_a_session_that_ends_inside_a_batch_fails_the_run_and_writes_nothing():
    with pytest.raises(OperationalError), held() as lease, lease.fenced():  # noqa: PT012
        JobLease.objects.create(job_key="other", name="other")
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert not JobLease.objects.filter(job_key="other").exists()
    run = JobRun.objects.get()
    assert (run.state, run.finished_at is not None) == (State.FAILED, True)
    assert seconds_left(KEY) is None


def test_a_newer_fence_refuses_the_batch_and_the_run_is_lost():
    with pytest.raises(StaleFence), held() as lease:  # noqa: PT012
        JobLease.objects.filter(pk=KEY).update(fence=lease.fence + 1)
        with lease.fenced():
            pytest.fail("a stale run wrote")
    assert JobRun.objects.get().state == State.LOST
