"""A process that holds a job for a test: `python -m tests.races.jobs_holder MODE TTL`.

Modes: `check` asks for its lease at every batch, `blind` never does (a careless job).
Each batch is one fenced write. Exit codes: 0 interrupted, 3 lease lost, 4 stale fence.
"""

import os
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
JOB = "race-job"
LONGEST_S = 60.0


def main(mode: str, ttl: int) -> int:
    from project.jobs.lease import Interrupted, LeaseLost, StaleFence, hold

    try:
        with hold(JOB, ttl=ttl) as lease:
            write_batches(lease, mode)
    except StaleFence:
        return 4
    except LeaseLost:
        return 3
    except Interrupted:
        return 0
    return 9


def write_batches(lease, mode: str) -> None:
    from project.jobs.models import JobLease

    ends_at = time.monotonic() + LONGEST_S
    batch = 0
    while time.monotonic() < ends_at:
        if mode == "check":
            lease.check()
        with lease.fenced():
            JobLease.objects.create(job_key=f"written-{lease.fence}-{batch}", name="x")
        batch += 1
        time.sleep(0.05)


if __name__ == "__main__":
    django.setup()
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
