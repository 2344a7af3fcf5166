"""The end of a journey: saved before it is acknowledged, told once, never lost."""

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from tests.tracking.factories import make_device, make_fix
from tracking import history, ingest, keys, live
from tracking.models import Device, Position

pytestmark = pytest.mark.usefixtures("running_hub")


def database_away(_records):
    raise OperationalError("refused")


@pytest.fixture
async def device() -> Device:
    return await sync_to_async(make_device)()


async def test_a_stop_writes_its_final_fix_at_once(device):
    await ingest.accept(device, [make_fix(-10)])
    # Nine metres: the 10 m rule does not hold back the last ones.
    assert await ingest.stop(device, make_fix(0, steps=0.8)) == "saved"
    await device.arefresh_from_db()
    assert device.state == "stopped"
    assert device.last_latitude == make_fix(steps=0.8).latitude
    assert await Position.objects.acount() == 1
    assert await sync_to_async(history.flush)(device.fleet_id) == 1
    await device.arefresh_from_db()
    assert device.state == "stopped"


async def test_a_stop_without_the_database_waits_in_the_buffer(device, monkeypatch):
    await ingest.accept(device, [make_fix(-10)])
    with monkeypatch.context() as patch:
        patch.setattr(history, "write", database_away)
        assert await ingest.stop(device, make_fix(0, steps=5)) == "accepted"
    await sync_to_async(history.flush)(device.fleet_id)
    await device.arefresh_from_db()
    assert device.state == "stopped"
    assert device.last_latitude == make_fix(steps=5).latitude
    assert await Position.objects.acount() == 2


async def test_a_stop_without_redis_is_saved_all_the_same(device, redis_away):
    async with redis_away():
        assert await ingest.stop(device, make_fix()) == "saved"
    await device.arefresh_from_db()
    assert device.state == "stopped"


async def test_a_stopped_device_is_no_longer_active_and_its_next_fix_starts_it(device):
    await ingest.accept(device, [make_fix(-10)])
    await ingest.stop(device, None)
    client, active = live.async_redis(), keys.active(device.fleet_id)
    assert await client.zcard(active) == 0
    assert await ingest.stop(device, None) == "saved"
    await ingest.touch(device)
    assert await client.zcard(active) == 0
    await ingest.accept(device, [make_fix(0, steps=5)])
    assert await client.zcard(active) == 1
    await sync_to_async(history.flush)(device.fleet_id)
    await device.arefresh_from_db()
    assert device.state == "active"


async def test_an_explicit_start_is_in_the_database_at_once(device):
    await ingest.start(device)
    await device.arefresh_from_db()
    assert device.state == "active"
    assert device.tracking_since is not None


async def test_stops_and_starts_are_told_once(device):
    listener = live.async_redis().pubsub(ignore_subscribe_messages=True)
    await listener.subscribe(*keys.channels(device.fleet_id))
    await ingest.start(device)
    await ingest.accept(device, [make_fix(-10)])
    for _ in range(3):
        await ingest.stop(device, make_fix(0, steps=5))
    await ingest.start(device)
    heard = []
    for _ in range(40):
        message = await listener.get_message(timeout=0.05)
        heard += [message["data"].split()[2]] if message else []
    await listener.aclose()
    events = [word for word in heard if not word.count("/")]
    assert events == ["start", "stop", "start"]
