"""The hub: frames are joined and shared, nobody waits for a slow watcher."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from tests.tracking.factories import (
    make_device,
    make_fix,
    make_user,
    session_cookie,
)
from tests.tracking.sockets import Watcher
from tracking import ingest, keys, live
from tracking import watchers as watchers_module
from tracking.watchers import Sight
from tracking.watchers import Watcher as Sent

pytestmark = pytest.mark.usefixtures("running_hub")

ZURICH, ROME = [8.0, 47.0, 9.0, 48.0], [12.0, 41.0, 13.0, 42.0]


@sync_to_async
def a_fleet(count: int):
    devices = [make_device()]
    devices += [make_device(fleet=devices[0].fleet) for _ in range(count - 1)]
    return devices, session_cookie(make_user(superuser=True))


def at(place: str, seconds: float = 0):
    latitude, longitude = {"Zürich": (47.37, 8.54), "Rome": (41.9, 12.5)}[place]
    return make_fix(seconds, latitude=latitude, longitude=longitude)


async def until(predicate, within_s: float = 5) -> None:
    async with asyncio.timeout(within_s):
        while not predicate():  # noqa: ASYNC110 (it polls what tests cannot await)
            await asyncio.sleep(0.01)


async def test_a_watcher_hears_only_of_where_it_looks():
    [one, other], cookie = await a_fleet(2)
    await ingest.accept(one, [at("Zürich", -9)])
    await ingest.accept(other, [at("Rome", -9)])
    watcher = Watcher(cookie)
    await watcher.open(ZURICH)
    assert set(watcher.items) == {str(one.pk)}
    await watcher.watch(ROME)
    await watcher.until(lambda: set(watcher.items) == {str(other.pk)}, "Rome")
    assert watcher.frames[-1]["full"]
    await watcher.close()


async def test_who_leaves_the_view_is_gone_and_comes_back():
    [device], cookie = await a_fleet(1)
    await ingest.accept(device, [at("Zürich", -9)])
    watcher = Watcher(cookie)
    await watcher.open(ZURICH)
    await ingest.accept(device, [at("Rome", -5)])
    await watcher.until(lambda: not watcher.items, "gone")
    assert watcher.frames[-1]["gone"] == [str(device.pk)]
    await ingest.accept(device, [at("Zürich", 0)])
    await watcher.until(lambda: watcher.items, "back")
    await watcher.close()


async def test_a_lost_device_is_told_once_and_leaves_the_map(settings):
    settings.TRACKING_LIVE_TTL_S = 1
    [device], cookie = await a_fleet(1)
    watcher = Watcher(cookie)
    await watcher.open()
    await ingest.accept(device, [make_fix(-1)])
    await watcher.until(lambda: watcher.items, "marker")
    await watcher.until(lambda: not watcher.items, "gone")
    events = [event["event"] for event in watcher.kind("event")]
    assert events == ["start", "lost"]
    await watcher.until(
        lambda: watcher.kind("roster")[-1]["items"][0]["st"] == "lost", "lost", 10
    )
    await device.arefresh_from_db()
    assert device.state == "lost"
    await watcher.close()


async def test_redis_emptied_under_us_starts_a_new_epoch_with_the_truth():
    devices, cookie = await a_fleet(2)
    for device in devices:
        await ingest.accept(device, [make_fix(-9)])
    watcher = Watcher(cookie)
    await watcher.open()
    epoch = watcher.frames[-1]["epoch"]
    await live.async_redis().flushdb()
    await ingest.accept(devices[0], [make_fix(0, steps=5)])
    await watcher.until(lambda: watcher.frames[-1]["epoch"] != epoch, "new epoch")
    assert watcher.frames[-1]["full"]
    await watcher.until(lambda: set(watcher.items) == {str(devices[0].pk)}, "truth")
    await watcher.close()


async def test_a_cut_connection_is_read_again_without_a_hole():
    devices, cookie = await a_fleet(2)
    for device in devices:
        await ingest.accept(device, [make_fix(-9)])
    watcher = Watcher(cookie)
    await watcher.open()
    epoch = watcher.frames[-1]["epoch"]
    await live.async_redis().client_kill_filter(_type="pubsub")
    await ingest.accept(devices[1], [make_fix(0, steps=5)])
    await watcher.until(lambda: watcher.frames[-1]["epoch"] != epoch, "new epoch")
    newest = make_fix(steps=5).latitude
    await watcher.until(
        lambda: watcher.items[str(devices[1].pk)]["lat"] == round(newest, 6), "newest"
    )
    await watcher.close()


async def test_a_publication_that_went_missing_is_noticed(caplog):
    [device], cookie = await a_fleet(1)
    await ingest.accept(device, [make_fix(-9)])
    watcher = Watcher(cookie)
    await watcher.open()
    cell = ingest._REMEMBERED[device.fleet_id, device.pk].cell
    await live.async_redis().hincrby(keys.sequence(device.fleet_id), cell, 1)
    await ingest.accept(device, [make_fix(0, steps=5)])
    await watcher.until(lambda: len(watcher.frames) == 2, "delta")
    assert any("after 1 came 2" in record.message for record in caplog.records)
    await watcher.close()


async def test_watchers_of_the_same_place_get_the_very_same_message(running_hub):
    [device], _cookie = await a_fleet(1)
    await ingest.accept(device, [make_fix(-9)])
    sent: list[list[dict[str, Any]]] = [[], []]

    async def send_0(message):
        sent[0].append(message)

    async def send_1(message):
        sent[1].append(message)

    both = [Sent(1, Sight((device.fleet_id,)), send) for send in (send_0, send_1)]
    await running_hub.wait_until_connected()
    for watcher in both:
        running_hub.join(watcher)
        watcher.look_at((8.0, 47.0, 9.0, 48.0))

    def frames(messages):
        return [m for m in messages if '"type":"frame"' in m["text"]]

    await until(lambda: all(frames(messages) for messages in sent))
    assert frames(sent[0])[0] is frames(sent[1])[0]
    for watcher in both:
        running_hub.leave(watcher)


async def test_a_watcher_that_never_reads_holds_up_nobody(running_hub, monkeypatch):
    monkeypatch.setattr(watchers_module, "SILENCE_S", 1.0)
    [device], cookie = await a_fleet(1)
    await ingest.accept(device, [make_fix(-60)])
    blocked = asyncio.Event()
    got: list[dict[str, Any]] = []

    async def stuck(message):
        got.append(message)
        if len(got) > 3:
            await blocked.wait()

    deaf = Sent(1, Sight((device.fleet_id,)), stuck)
    deaf.task = asyncio.create_task(blocked.wait())
    await running_hub.wait_until_connected()
    running_hub.join(deaf)
    deaf.look_at(None)
    watcher = Watcher(cookie)
    await watcher.open()
    for step in range(1, 30):
        await ingest.accept(device, [make_fix(-60 + step, steps=step * 2)])
        there = round(make_fix(steps=step * 2).latitude, 6)
        await watcher.until(
            lambda lat=there: watcher.items[str(device.pk)]["lat"] == lat, "frame", 3
        )
    await until(lambda: deaf.is_closing)
    assert len(got) < 20
    blocked.set()
    running_hub.leave(deaf)
    with suppress(asyncio.CancelledError):
        await deaf.task
    await watcher.close()


async def test_a_slow_watcher_gets_the_newest_and_no_queue(running_hub):
    [device], _cookie = await a_fleet(1)
    frames: list[dict[str, Any]] = []

    async def send(message):
        content = json.loads(message["text"])
        if content["type"] == "frame":
            frames.append(content)

    slow = Sent(1, Sight((device.fleet_id,)), send)
    await running_hub.wait_until_connected()
    running_hub.join(slow)
    slow.look_at(None)
    for step in range(1, 41):
        await ingest.accept(device, [make_fix(-60 + step, steps=step * 2)])
        await asyncio.sleep(0.06)
    assert len(frames) == watchers_module.WINDOW
    slow.acknowledge(frames[-1]["n"])
    await until(lambda: len(frames) > watchers_module.WINDOW)
    newest = round(make_fix(steps=80).latitude, 6)
    assert [item["lat"] for item in frames[-1]["items"]] == [newest]
    running_hub.leave(slow)


async def test_a_hundred_and_fifty_maps_may_open_at_once():
    [device], cookie = await a_fleet(1)
    await ingest.accept(device, [make_fix(-9)])
    watchers = [Watcher(cookie) for _ in range(150)]
    await asyncio.gather(*(watcher.open() for watcher in watchers))
    assert all(len(watcher.items) == 1 for watcher in watchers)
    await asyncio.gather(*(watcher.close() for watcher in watchers))


async def test_a_fix_costs_no_look_at_every_watcher(running_hub, monkeypatch):
    [device], cookie = await a_fleet(1)
    watcher = Watcher(cookie)
    await watcher.open()
    looks, wanted = [], running_hub.wanted

    def counted() -> set[int]:
        looks.append(1)
        return set(wanted())

    monkeypatch.setattr(running_hub, "wanted", counted)
    fixes = [make_fix(-300 + n, steps=n * 2) for n in range(300)]
    await ingest.accept(device, fixes)
    newest = round(make_fix(steps=598).latitude, 6)
    await watcher.until(
        lambda: newest in [item["lat"] for item in watcher.items.values()], "newest"
    )
    assert len(looks) < 100
    await watcher.close()
