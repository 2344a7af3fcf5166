"""Workers that share, steal and die: one effect, in the order of the key."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from streaming import inbox, lanes, leases
from streaming.models import Attempt, DeadLetter, HandledMessage, InboxMessage, Lane
from tests.processes import ROOT, Processes
from tests.streaming.builders import (
    arrive,
    handles,
    lanes_of_ready,
    make_place,
    make_record,
    note,
)

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def test_workers_that_drain_the_same_lanes_have_each_effect_once_and_in_order():
    done: list[tuple[bytes | None, int]] = []
    lock = threading.Lock()

    def prepare(message):
        with lock:
            done.append((message.key, message.offset))
        return "ok"

    table = handles(None, prepare=prepare)
    records = [make_record(n, note("x"), key=b"%d" % (n % 9)) for n in range(300)]
    arrive(make_place(), records, table)
    lane_ids = lanes_of_ready()
    together = threading.Barrier(3, timeout=10)

    def work(_number: int) -> None:
        together.wait()
        lanes.drain(lane_ids, table)
        connection.close()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert len(done) == HandledMessage.objects.count() == 300
    for key in {key for key, _ in done}:
        offsets = [offset for other, offset in done if other == key]
        assert offsets == sorted(offsets)


def test_a_thief_cannot_pass_a_holder_that_is_finishing():
    table = handles(lambda message: "ok")
    arrive(make_place(), [make_record(0, note("x"))], table)
    lane_ids = lanes_of_ready()
    held = leases.lease(lane_ids)
    claimed = inbox.claim(held, 10)

    def steal() -> list[leases.Held]:
        try:
            return leases.lease(lane_ids)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        leases.fence(held)
        # Expired the moment after the fence was passed.
        Lane.objects.filter(pk__in=lane_ids).update(lease_until="2020-01-01T00:00:00Z")
        assert pool.submit(steal).result(timeout=10) == []
        inbox.complete([(claimed[0], "test.note", "ok")])
    assert HandledMessage.objects.count() == 1


def test_a_poison_message_that_kills_its_worker_buries_nobody_else(
    processes: Processes,
):
    place = make_place()
    texts = ["poison" if n == 3 else "fine" for n in range(60)]
    keys = [b"same lane" if n < 20 else b"%d" % n for n in range(60)]
    records = [make_record(n, note(texts[n]), key=keys[n]) for n in range(60)]
    arrive(place, records, handles())
    command = [sys.executable, "-m", "tests.streaming.dying_worker"]
    command.append(json.dumps(lanes_of_ready()))
    worker = subprocess.run(
        command,
        cwd=ROOT,
        env=processes.environment(),
        timeout=60,
        check=True,
        capture_output=True,
    )
    letter = DeadLetter.objects.get()
    assert (letter.offset, letter.reason, letter.attempts) == (3, "worker_lost", 3)
    assert HandledMessage.objects.count() == 59
    assert not InboxMessage.objects.filter(status=InboxMessage.Status.READY).exists()
    # Once among its neighbours, which does not count, and three times alone.
    assert int(worker.stdout) == 4
    assert not Attempt.objects.exclude(outcome=Attempt.Outcome.LOST).exists()
