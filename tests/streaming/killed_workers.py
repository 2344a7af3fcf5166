"""`python -m tests.streaming.killed_workers LANES SECONDS`: workers that die at random.

Two forked workers drain the lanes into the table `effect`; one of them is killed or
stopped every few hundredths of a second. At the end one finishes what is left.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from random import Random

import django

WORKERS = 2
PATIENCE_S = 20.0


def main(lane_ids: Sequence[int], seconds: float) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from streaming import leases

    # Half a second: what a test can wait for.
    vars(leases)["LEASE_S"] = 0.5
    random = Random()  # noqa: S311
    workers = [start(lane_ids) for _ in range(WORKERS)]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(random.uniform(0.02, 0.12))
        victim = workers.pop(random.randrange(WORKERS))
        if random.random() < 0.4:
            # Longer than its lease: it goes on as a zombie.
            os.kill(victim, signal.SIGSTOP)
            time.sleep(0.7)
            os.kill(victim, signal.SIGCONT)
            workers.append(victim)
            continue
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        workers.append(start(lane_ids))
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers)


def start(lane_ids: Sequence[int]) -> int:
    # No connection is open in the parent, so the children share none.
    if child := os.fork():
        return child
    work(lane_ids)
    os._exit(0)


def work(lane_ids: Sequence[int]) -> None:
    from django.db import connection

    from streaming import lanes
    from streaming.handlers import Message
    from streaming.models import InboxMessage
    from streaming.retries import RetryPolicy
    from tests.streaming.builders import handles

    def prepare(message: Message) -> Message:
        # Most are stopped here, with a claim in hand and no transaction open.
        time.sleep(0.003)
        return message

    def apply(message: Message) -> str:
        with connection.cursor() as sql:
            sql.execute(
                "INSERT INTO effect (key, number) VALUES (%s, %s)",
                [message.key, message.offset],
            )
        return "ok"

    table = handles(apply, prepare=prepare, retry=RetryPolicy(max_attempts=99))
    ready = InboxMessage.objects.filter(status=InboxMessage.Status.READY)
    deadline = time.monotonic() + PATIENCE_S
    while ready.exists() and time.monotonic() < deadline:
        try:
            lanes.drain(lane_ids, table)
        except Exception:  # noqa: BLE001 - a zombie's session was ended meanwhile
            connection.close()
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), float(sys.argv[2])))
