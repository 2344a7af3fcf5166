"""How simulated vehicles reach the server: as real apps do, by its own doors.

Before it: `tracking.simulation`. After it: `/ws/device/` and `/osmand/<token>/`. Both
come back after a lost connection with growing, random pauses.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tracking.protocols.osmand import KNOT_MPS
from tracking.simulation import Reporter, Vehicle

LONGEST_PAUSE_S = 15.0
ANSWER_TIMEOUT_S = 10.0


@dataclass
class Tally:
    """What all vehicles together have done."""

    sent: int = 0
    reconnects: int = 0


class Door(Protocol):
    async def send(self, report: dict[str, Any]) -> None: ...
    async def start(self) -> None: ...
    async def stop(self, report: dict[str, Any]) -> None: ...


class SocketDoor:
    """The native websocket: one answer is awaited for each message."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0

    async def send(self, report: dict[str, Any]) -> None:
        await self._ask({"type": "fix", **report})

    async def start(self) -> None:
        await self._ask({"type": "start"})

    async def stop(self, report: dict[str, Any]) -> None:
        await self._ask({"type": "stop", "fix": report})

    async def _ask(self, message: dict[str, Any]) -> None:
        self._number += 1
        await self._socket.send(json.dumps(message | {"id": str(self._number)}))
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await self._socket.recv()


class FormDoor:
    """OsmAnd's form, as Traccar Client sends it; it has no words for start and stop."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client, self._url = client, url

    async def send(self, report: dict[str, Any]) -> None:
        form = {
            "lat": report["lat"],
            "lon": report["lon"],
            "timestamp": report["fixed_at"],
            "accuracy": report["accuracy_m"],
            "speed": round(report["speed_mps"] / KNOT_MPS, 2),
            "bearing": report["course_deg"],
            "batt": report["battery_pct"],
        }
        answer = await self._client.post(self._url, data=form)
        answer.raise_for_status()

    async def start(self) -> None:
        return

    async def stop(self, report: dict[str, Any]) -> None:
        await self.send(report | {"speed_mps": 0.0})


@asynccontextmanager
async def socket_door(url: str, token: str) -> AsyncIterator[Door]:
    address = f"{url.replace('http', 'ws', 1).rstrip('/')}/ws/device/"
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(address, additional_headers=headers, compression=None) as socket:
        await socket.recv()
        yield SocketDoor(socket)


@asynccontextmanager
async def form_door(url: str, token: str) -> AsyncIterator[Door]:
    async with httpx2.AsyncClient(timeout=ANSWER_TIMEOUT_S) as client:
        yield FormDoor(client, f"{url.rstrip('/')}/osmand/{token}/")


async def drive(
    vehicle: Vehicle, open_door: Any, tally: Tally, interval_s: float
) -> None:
    """For ever; ended by cancelling its task."""
    pause_s = 0.5
    while True:
        try:
            async with open_door() as door:
                await door.start()
                pause_s = 0.5
                await _drive(vehicle, door, tally, interval_s)
        except (OSError, TimeoutError, WebSocketException, httpx2.HTTPError):
            tally.reconnects += 1
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


async def _drive(vehicle: Vehicle, door: Door, tally: Tally, interval_s: float) -> None:
    reporter, clock = Reporter(), time.monotonic
    await asyncio.sleep(random.uniform(0, interval_s))  # noqa: S311
    before = due = clock()
    while True:
        due = max(due + interval_s, clock())
        await asyncio.sleep(due - clock())
        now = clock()
        happened, before = vehicle.advance(min(now - before, 5 * interval_s)), now
        report = _report(vehicle)
        if happened == "arrived":
            await door.stop(report)
        elif happened == "departed":
            await door.start()
        elif happened == "driving" and reporter.is_due(vehicle.place(), now):
            await door.send(report)
        else:
            continue
        tally.sent += 1


def _report(vehicle: Vehicle) -> dict[str, Any]:
    latitude, longitude = vehicle.place()
    return {
        "lat": round(latitude, 6),
        "lon": round(longitude, 6),
        "fixed_at": time.time_ns() // 1_000_000,
        "accuracy_m": 8,
        "speed_mps": round(vehicle.speed_mps, 1),
        "course_deg": round(vehicle.course_deg),
        "battery_pct": round(vehicle.battery_pct),
    }
