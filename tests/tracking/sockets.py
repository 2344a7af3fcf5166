"""Sockets of tests: a watcher that keeps what a map would show, and a device."""

import json
import time
from typing import Any

from channels.testing import WebsocketCommunicator

from project.asgi import application

HOST = b"testserver"


class Watcher:
    """Keeps items as the map page does, and acknowledges every frame."""

    def __init__(
        self, cookie: str, origin: bytes | None = b"http://testserver"
    ) -> None:
        headers = [(b"host", HOST), (b"cookie", cookie.encode())]
        headers += [(b"origin", origin)] if origin is not None else []
        self.socket = WebsocketCommunicator(application, "/ws/map/", headers)
        self.items: dict[str, dict[str, Any]] = {}
        self.frames: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []

    async def open(self, viewport: list[float] | None = None) -> None:
        connected, _ = await self.socket.connect(timeout=5)
        assert connected
        await self.until(lambda: self.kind("hello"), "hello")
        await self.watch(viewport)
        await self.until(lambda: self.frames, "first frame")

    async def watch(self, viewport: list[float] | None) -> None:
        message = {"type": "watch", "viewport": viewport, "zoom": 5}
        await self.socket.send_to(json.dumps(message))

    def kind(self, name: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == name]

    async def read(self, within_s: float = 5) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.socket.receive_from(within_s))
        self.messages.append(message)
        if message["type"] == "frame":
            self.frames.append(message)
            if message["full"]:
                self.items.clear()
            for gone in message["gone"]:
                self.items.pop(gone, None)
            self.items |= {item["id"]: item for item in message["items"]}
            await self.socket.send_to(json.dumps({"type": "ack", "n": message["n"]}))
        return message

    async def until(self, predicate: Any, what: str, within_s: float = 8) -> None:
        deadline = time.monotonic() + within_s
        while not predicate():
            left = deadline - time.monotonic()
            assert left > 0, f"{what}: not within {within_s} s; {self.messages[-5:]}"
            await self.read(left)

    async def close(self) -> None:
        await self.socket.disconnect()


class Phone:
    """A device socket: sends one message, gives back the answer."""

    def __init__(self, token: str, *, subprotocol: bool = False) -> None:
        if subprotocol:
            offered = ["drover.v1", f"bearer.{token}"]
            self.socket = WebsocketCommunicator(
                application, "/ws/device/", subprotocols=offered
            )
        else:
            bearer = [(b"authorization", f"Bearer {token}".encode())]
            self.socket = WebsocketCommunicator(application, "/ws/device/", bearer)

    async def open(self) -> dict[str, Any]:
        connected, self.protocol = await self.socket.connect(timeout=5)
        assert connected
        return await self.read()

    async def read(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.socket.receive_from(5))
        return answer

    async def tell(self, **message: Any) -> dict[str, Any]:
        await self.socket.send_to(json.dumps(message))
        return await self.read()

    async def close(self) -> None:
        await self.socket.disconnect()


def as_message(fix: Any, **over: Any) -> dict[str, Any]:
    """The native message of a Fix."""
    optional = ("accuracy_m", "speed_mps", "course_deg", "battery_pct")
    details = {name: getattr(fix, name) for name in optional}
    return {
        "lat": fix.latitude,
        "lon": fix.longitude,
        "fixed_at": fix.fixed_at_ms,
        **{name: value for name, value in details.items() if value is not None},
        **over,
    }
