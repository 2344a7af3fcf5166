"""What must not happen when two do the same thing to one device at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from tests.tracking.factories import make_device, make_fix
from tracking import history, ingest, keys, live
from tracking.ingest import accept_sync
from tracking.models import Position

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def at_once(count: int, work: Any) -> list[Any]:
    """Run `work(number)` in threads that start together."""
    barrier = threading.Barrier(count, timeout=10)

    def run(number: int) -> Any:
        barrier.wait()
        try:
            return work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.fixture(autouse=True)
def _fresh():
    ingest._REMEMBERED.clear()
    yield
    live.sync_redis().connection_pool.disconnect()
    live.sync_redis.cache_clear()


def test_a_fix_sent_51_times_by_four_connections_is_one_row_and_one_publication():
    device, fix = make_device(), make_fix()
    listener = live.sync_redis().pubsub(ignore_subscribe_messages=True)
    listener.subscribe(*keys.channels(device.fleet_id))
    texts = at_once(
        4, lambda n: [accept_sync(device, [fix])[0].text for _ in range(13 - (n == 0))]
    )
    answers = [text for one in texts for text in one]
    assert len(answers) == 51
    assert sorted(set(answers)) == ["accepted", "duplicate"]
    assert answers.count("accepted") == 1
    history.flush(device.fleet_id)
    assert Position.objects.count() == 1
    heard = [listener.get_message(timeout=0.02) for _ in range(30)]
    listener.close()
    assert sum(m["data"].startswith("put ") for m in heard if m) == 1


def test_connections_that_interleave_leave_the_newest_fix_live():
    device = make_device()
    fixes = [make_fix(-100 + second, steps=second * 2) for second in range(80)]
    at_once(4, lambda n: [accept_sync(device, [fix]) for fix in fixes[n::4]])
    value = str(live.sync_redis().get(keys.live(device.fleet_id, device.pk)))
    assert f" {fixes[-1].fixed_at_ms} " in value
    history.flush(device.fleet_id)
    assert Position.objects.count() == 80


def test_two_flushers_at_once_write_no_row_twice_and_none_too_few():
    devices = [make_device()]
    devices += [make_device(fleet=devices[0].fleet) for _ in range(3)]
    for device in devices:
        accept_sync(device, [make_fix(-900 + n, steps=n) for n in range(600)])
    fleet_id = devices[0].fleet_id
    written = at_once(3, lambda _n: history.flush(fleet_id))
    assert sum(written) == Position.objects.count() == 2400
    assert live.newest_buffered(fleet_id) == ""


def test_a_loss_is_announced_by_exactly_one_process(settings):
    settings.TRACKING_LIVE_TTL_S = 0.02
    device = make_device()
    accept_sync(device, [make_fix()])
    while live.sync_redis().exists(keys.live(device.fleet_id, device.pk)):
        continue
    lost = at_once(4, lambda _n: live.expire(device.fleet_id))
    assert sorted(lost, key=len) == [[], [], [], [device.pk]]
