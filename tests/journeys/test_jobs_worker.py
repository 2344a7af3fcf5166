"""A real prefork worker that is told to stop in the middle of a job."""

import os
import signal
import time

import pytest

from project.jobs import lock
from project.jobs.models import JobRun, State
from tests.journeys.slow_job import slow_job

pytestmark = pytest.mark.journey


@pytest.mark.parametrize("whole_group", [False, True], ids=["main process", "group"])
def test_sigterm_ends_the_batch_frees_the_lock_and_the_worker_leaves(
    processes, whole_group
):
    worker = processes.celery(
        *("worker", "--queues=jobs", "--concurrency=1", "--without-gossip"),
        *("--without-mingle", "--loglevel=info", "--include=tests.journeys.slow_job"),
        name="worker",
    )
    slow_job.run_now()
    processes.wait_for(
        lambda: JobRun.objects.filter(state=State.RUNNING).exists(),
        timeout=40,
        what="the running job",
    )
    started = time.monotonic()
    if whole_group:
        os.killpg(worker.pid, signal.SIGTERM)
    else:
        worker.send_signal(signal.SIGTERM)
    processes.wait_for(
        lambda: JobRun.objects.filter(state=State.INTERRUPTED).exists(),
        timeout=10,
        what="the interrupted run",
    )
    assert time.monotonic() - started < 5
    assert lock.seconds_left("slow-job") is None
    assert worker.wait(timeout=15) is not None
    assert JobRun.objects.get().reason
