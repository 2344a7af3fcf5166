"""Real processes: a device moves, a watcher sees it, a stop is saved and seen."""

import asyncio
import json
import time
import urllib.request
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from tests.tracking.factories import (
    make_device,
    make_fix,
    make_token,
    make_user,
    session_cookie,
)
from tests.tracking.sockets import as_message
from tracking.models import Device, Position

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def site(processes, unused_port: int) -> str:
    processes.web(unused_port)
    url = f"http://127.0.0.1:{unused_port}"

    def is_up() -> bool:
        try:
            return bool(urllib.request.urlopen(f"{url}/healthz", timeout=1))  # noqa: S310
        except OSError:
            return False

    processes.wait_for(is_up, timeout=40, what="the web process")
    return url


class Map:
    """What a map page would show."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.items: dict[str, Any] = {}
        self.frames: list[Any] = []
        self.events: list[tuple[str, str]] = []

    async def until(self, predicate: Any, within_s: float = 15) -> None:
        async with asyncio.timeout(within_s):
            while not predicate():
                self.take(json.loads(await self.socket.recv()))
                if self.frames:
                    ack = {"type": "ack", "n": self.frames[-1]["n"]}
                    await self.socket.send(json.dumps(ack))

    def take(self, message: Any) -> None:
        if message["type"] == "event":
            self.events.append((message["event"], message["id"]))
        if message["type"] == "frame":
            self.frames.append(message)
            self.items = {} if message["full"] else self.items
            self.items |= {item["id"]: item for item in message["items"]}
            for gone in message["gone"]:
                self.items.pop(gone, None)


def open_map(site: str, cookie: str) -> connect:
    headers = {"Cookie": cookie}
    return connect(
        f"ws{site[4:]}/ws/map/", origin=Origin(site), additional_headers=headers
    )


async def ask(socket: ClientConnection, **message: Any) -> Any:
    await socket.send(json.dumps(message))
    return json.loads(await socket.recv())


@sync_to_async
def two_devices():
    first = make_device()
    second = make_device(fleet=first.fleet)
    tokens = make_token(first), make_token(second)
    return (first, second), tokens, session_cookie(make_user(superuser=True))


async def test_a_device_moves_and_a_watcher_sees_only_that(site: str) -> None:
    (first, second), tokens, cookie = await two_devices()
    bearers = [{"Authorization": f"Bearer {token}"} for token in tokens]
    address = f"ws{site[4:]}/ws/device/"
    async with (
        connect(address, additional_headers=bearers[0]) as van,
        connect(address, additional_headers=bearers[1]) as truck,
        open_map(site, cookie) as socket,
    ):
        for phone in (van, truck):
            assert json.loads(await phone.recv())["type"] == "hello"
            answer = await ask(phone, type="fix", id=1, **as_message(make_fix(-9)))
            assert answer["result"] == "accepted"
        page = Map(socket)
        await socket.send('{"type":"watch","viewport":[5,45,15,50],"zoom":5}')
        await page.until(lambda: len(page.items) == 2)
        assert page.frames[0]["full"]

        seen = len(page.frames)
        began = time.monotonic()
        await ask(van, type="fix", id=2, **as_message(make_fix(0, steps=3)))
        await page.until(lambda: len(page.frames) > seen)
        assert time.monotonic() - began < 2
        assert [item["id"] for item in page.frames[seen]["items"]] == [str(first.pk)]

        answer = await ask(van, type="stop", id=3, fix=as_message(make_fix(1, steps=4)))
        assert answer == {"type": "ack", "id": 3, "result": "saved"}
        row = await Position.objects.aget(device=first)
        assert row.latitude == make_fix(steps=4).latitude
        await page.until(lambda: page.items[str(first.pk)]["st"] == "stopped")
        assert ("stop", str(first.pk)) in page.events
        assert page.items[str(second.pk)]["st"] == "live"
    await sync_to_async(connections.close_all)()


def test_the_simulated_fleet_drives_by_both_doors(site: str, processes) -> None:
    cookie = session_cookie(make_user(superuser=True))
    processes.manage("simulate_fleet", "--vehicles=6", f"--url={site}", "-v2")

    async def watch() -> Map:
        async with open_map(site, cookie) as socket:
            page = Map(socket)
            await socket.send('{"type":"watch","viewport":null}')
            await page.until(lambda: len(page.items) == 6, 30)
            before = {device: item["lat"] for device, item in page.items.items()}
            await page.until(
                lambda: (
                    sum(page.items[d]["lat"] != lat for d, lat in before.items()) >= 5
                )
            )
            return page

    page = asyncio.run(watch())
    assert len(page.items) == Device.objects.filter(fleet__name="Demo").count() == 6
    began = time.monotonic()
    assert processes.stop("simulate_fleet") == 0
    assert time.monotonic() - began < 5
