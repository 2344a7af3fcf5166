"""Rights and devices that change while maps are open: heard within a second or two."""

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.contrib.sessions.models import Session
from django.utils import timezone
from redis import RedisError

from tests.tracking.factories import (
    make_device,
    make_fix,
    make_fleet,
    make_token,
    make_user,
    session_cookie,
)
from tests.tracking.sockets import Phone, Watcher, as_message
from tracking import control, ingest, keys, live, upkeep
from tracking.models import Device, Grant
from tracking.upkeep import Upkeep

pytestmark = pytest.mark.usefixtures("running_hub")


@pytest.fixture(autouse=True)
def _rosters_at_once(monkeypatch) -> None:
    monkeypatch.setattr(upkeep, "ROSTER_EVERY_S", 0.5)


async def closed_with(watcher: Watcher) -> int:
    async with asyncio.timeout(3):
        while True:
            message = await watcher.socket.receive_output(3)
            if message["type"] == "websocket.close":
                return int(message["code"])


def names(watcher: Watcher) -> dict[str, str]:
    """The list as a page keeps it."""
    found: dict[str, str] = {}
    for roster in watcher.kind("roster"):
        found = {} if roster["full"] else found
        found |= {item["id"]: item["name"] for item in roster["items"]}
        for gone in roster["gone"]:
            found.pop(gone, None)
    return found


@sync_to_async
def a_map(**who: bool) -> Watcher:
    return Watcher(session_cookie(make_user(**who)))


async def test_who_logs_out_is_closed_within_a_second():
    watcher = await a_map()
    await watcher.open()
    session = await Session.objects.aget()
    await sync_to_async(session.delete)()
    assert await closed_with(watcher) == 4401


async def test_a_session_that_has_expired_is_closed_at_the_next_look(running_hub):
    watcher = await a_map()
    await watcher.open()
    await Session.objects.aupdate(expire_date=timezone.now() - timedelta(seconds=1))
    await Upkeep(running_hub).check_rights()
    assert await closed_with(watcher) == 4401


async def test_who_comes_while_rights_are_read_stays(running_hub):
    """The reading began before this map was opened, so it says nothing of it."""
    watcher = await a_map()
    checks = [asyncio.create_task(Upkeep(running_hub).check_rights())]
    await asyncio.sleep(0)
    await watcher.open()
    await asyncio.gather(*checks)
    await watcher.watch([5, 45, 15, 50])
    await watcher.until(lambda: len(watcher.frames) > 1, "the next view")
    await watcher.close()


async def test_a_new_device_and_a_new_name_appear_on_an_open_map():
    first = await sync_to_async(make_device)(name="First")
    watcher = await a_map(superuser=True)
    await watcher.open()
    await watcher.until(lambda: names(watcher), "the list")
    second = await Device.objects.acreate(name="Second", fleet=first.fleet)
    first.name = "Renamed"
    await first.asave()
    expected = {str(first.pk): "Renamed", str(second.pk): "Second"}
    await watcher.until(lambda: names(watcher) == expected, "both")
    await watcher.close()


async def test_a_device_that_changes_its_fleet_leaves_the_maps_of_the_old_one():
    device = await sync_to_async(make_device)()
    token, old_fleet = await sync_to_async(make_token)(device), device.fleet
    await sync_to_async(make_device)(fleet=old_fleet)
    user = await sync_to_async(make_user)()
    await Grant.objects.acreate(user=user, fleet=old_fleet)
    owner = Watcher(await sync_to_async(session_cookie)(user))
    everybody = await a_map(superuser=True)
    phone = Phone(token)
    await phone.open()
    await phone.tell(type="fix", id=1, **as_message(make_fix(-9)))
    for watcher in (owner, everybody):
        await watcher.open()
        await watcher.until(lambda w=watcher: names(w), "the list")
        assert set(watcher.items) == {str(device.pk)}

    device.fleet = await sync_to_async(make_fleet)()
    await device.asave()
    assert (await phone.socket.receive_output(3))["code"] == 1012
    again = Phone(token)
    await again.open()
    await again.tell(type="fix", id=2, **as_message(make_fix(0, steps=5)))
    await owner.until(lambda: not owner.items, "gone from the map")
    await owner.until(lambda: str(device.pk) not in names(owner), "gone from the list")
    there = round(make_fix(steps=5).latitude, 6)
    await everybody.until(
        lambda: everybody.items[str(device.pk)]["lat"] == there, "newest", 12
    )
    assert str(device.pk) in names(everybody)
    assert not await live.async_redis().exists(keys.live(old_fleet.pk, device.pk))
    for socket in (owner, everybody, again):
        await socket.close()


async def test_a_deleted_device_leaves_the_map_at_once():
    device = await sync_to_async(make_device)()
    watcher = await a_map(superuser=True)
    await ingest.accept(device, [make_fix(-9)])
    await watcher.open()
    assert watcher.items
    await sync_to_async(device.delete)()
    await watcher.until(lambda: not watcher.items, "gone")
    await watcher.close()


async def test_a_stop_missed_during_an_outage_is_not_called_live(running_hub):
    device = await sync_to_async(make_device)()
    watcher = await a_map(superuser=True)
    await watcher.open()
    await watcher.until(lambda: watcher.kind("roster"), "the list")
    await ingest.accept(device, [make_fix(-9)])
    await watcher.until(lambda: watcher.kind("event"), "start")
    # What this process would have heard is lost with its connection.
    epoch = running_hub.epoch
    running_hub.heard = lambda *_: None
    await ingest.stop(device, None)
    await live.async_redis().client_kill_filter(_type="pubsub")
    await watcher.until(
        lambda: watcher.frames and watcher.frames[-1]["epoch"] != epoch, "new epoch"
    )
    await watcher.until(
        lambda: watcher.kind("roster")[-1]["items"][0]["st"] == "stopped", "stop"
    )
    await watcher.close()


async def test_a_control_event_survives_one_broken_connection(monkeypatch):
    layer, sent = get_channel_layer(), []

    async def once_broken(group: str, message: dict[str, str]) -> None:
        sent.append(message)
        if len(sent) == 1:
            raise RedisError("Connection closed by server.")

    monkeypatch.setattr(layer, "group_send", once_broken)
    await sync_to_async(control.announce)("tracking.rights")
    assert sent == [{"type": "tracking.rights"}] * 2
