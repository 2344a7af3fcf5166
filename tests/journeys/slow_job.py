"""A job that a real worker runs for a minute, a batch every 50 ms."""

import time

from project.jobs.lease import Lease
from project.jobs.scheduling import scheduled_job


@scheduled_job("slow-job", ttl=10)
def slow_job(lease: Lease) -> None:
    for batch in range(1200):
        lease.check()
        lease.progress(batches=batch)
        time.sleep(0.05)
