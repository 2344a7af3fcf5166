"""The websockets: DeviceConsumer takes fixes in, MapConsumer lets frames out.

Protocol only. Both have a receive loop of their own and no channel layer, because the
stock dispatch makes a thread hop for every message. Before them: a phone or a map page.
After them: `tracking.ingest` and `tracking.hub`.
"""

import asyncio
import logging
from math import isfinite
from typing import Any

import orjson
from channels.consumer import AsyncConsumer
from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError

from tracking import auth, doors, ingest
from tracking.fixes import Fix, InvalidFix
from tracking.hub import hub
from tracking.ingest import now_ms
from tracking.protocols import native
from tracking.watchers import CLOSE_TIMEOUT_S, NOT_LOGGED_IN, Sight, Watcher

logger = logging.getLogger(__name__)

SUBPROTOCOL = "drover.v1"
TOKEN_PROTOCOL = "bearer."  # noqa: S105 (the start of a subprotocol name)
MOST_TEXT = 16 * 1024
MOST_BATCH_TEXT = 64 * 1024
HEARTBEAT_S = 60
LONGEST_ID = 100
FORBIDDEN, UNKNOWN_ADDRESS = 4403, 4404
BAD_DATA, TOO_BIG, TRY_LATER = 1003, 1009, 1013


class MapConsumer(AsyncConsumer):
    """`/ws/map/`: hello, then rosters, events and numbered frames."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = dict(scope["headers"])
        if not auth.is_same_origin(headers):
            # Closing before the handshake is done answers 403.
            await send({"type": "websocket.close", "code": FORBIDDEN})
            return
        await send({"type": "websocket.accept"})
        session = auth.session_of(headers)
        try:
            await hub().wait_until_connected()
            viewer = await _viewer(session)
        except (DatabaseError, InterfaceError, TimeoutError):
            await send({"type": "websocket.close", "code": TRY_LATER})
            return
        if viewer is None:
            await send({"type": "websocket.close", "code": NOT_LOGGED_IN})
            return
        await self._watch(Watcher(*viewer, send, session), receive)

    async def _watch(self, watcher: Watcher, receive: Any) -> None:
        # No step in between: from the reading of the rights on, every change is heard.
        hub().join(watcher)
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                self._take(watcher, message.get("text") or "")
        except asyncio.CancelledError:
            if not watcher.is_closing:
                raise
        finally:
            hub().leave(watcher)

    def _take(self, watcher: Watcher, text: str) -> None:
        try:
            _check_size(text, MOST_TEXT)
            _obey(watcher, native.decode(text))
        except InvalidFix as error:
            watcher.push({"type": "websocket.send", "text": _error(error)})


class NoConsumer(AsyncConsumer):
    """Any other address: refused before the handshake, not a traceback in the log."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.close", "code": UNKNOWN_ADDRESS})


class DeviceConsumer(AsyncConsumer):
    """`/ws/device/`: fixes, start, stop and ping of the device that a token names."""

    _closing: asyncio.Task[None] | None = None
    _task: asyncio.Task[Any] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.send_raw = send
        await receive()
        self.token = auth.bearer(dict(scope["headers"])) or _offered(scope)
        protocol = SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", []) else None
        await send({"type": "websocket.accept", "subprotocol": protocol})
        try:
            device = await auth.identify(self.token) if self.token else None
        except ingest.Unavailable:
            await send({"type": "websocket.close", "code": TRY_LATER})
            return
        if device is None:
            await send({"type": "websocket.close", "code": NOT_LOGGED_IN})
            return
        await self._serve(device, receive)

    async def _serve(self, device: auth.Identity, receive: Any) -> None:
        self.device, self._task = device, asyncio.current_task()
        hub().device_sockets.add(self)
        hub().ensure_running()
        try:
            await self._hello(device)
            while (message := await receive())["type"] != "websocket.disconnect":
                if self._closing or not await self._take(device, message.get("text")):
                    return
        except asyncio.CancelledError:
            if not self._closing:
                raise
        finally:
            hub().device_sockets.discard(self)

    def cut(self, code: int) -> None:
        """Close the socket now, whether the phone reads or not."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(code))

    async def _close(self, code: int) -> None:
        closing = self.send_raw({"type": "websocket.close", "code": code})
        try:
            await asyncio.wait_for(closing, CLOSE_TIMEOUT_S)
        except Exception:  # noqa: BLE001 (whatever it is, the socket must end)
            if self._task is not None:
                self._task.cancel()

    async def _hello(self, device: auth.Identity) -> None:
        await self._send(
            type="hello",
            device=str(device.id),
            name=device.name,
            min_distance_m=10,
            heartbeat_s=HEARTBEAT_S,
            now=now_ms(),
        )

    async def _take(self, device: auth.Identity, text: str | None) -> bool:
        """Answer one message; False when the socket was closed for it."""
        if text is None or len(text) > MOST_BATCH_TEXT:
            code = BAD_DATA if text is None else TOO_BIG
            await self.send_raw({"type": "websocket.close", "code": code})
            return False
        message_id: str | float | None = None
        try:
            message = native.decode(text)
            message_id = _id(message.get("id"))
            answer = await _answer(device, message, text)
            await self._send(type="ack", id=message_id, **answer)
        except InvalidFix as error:
            doors.count_invalid("native", error)
            await self._refuse(error, message_id)
        except ingest.Unavailable as error:
            away = InvalidFix("unavailable", f"{error}. Keep it and send it again.")
            await self._refuse(away, message_id)
        return True

    async def _refuse(self, error: InvalidFix, message_id: str | float | None) -> None:
        text = _error(error, message_id)
        await self.send_raw({"type": "websocket.send", "text": text})

    async def _send(self, **content: Any) -> None:
        text = orjson.dumps(content).decode()
        await self.send_raw({"type": "websocket.send", "text": text})


async def _viewer(session: str) -> tuple[int, Sight] | None:
    """User id and sight of a session, read again if rights changed meanwhile."""
    while True:
        version = hub().rights_version
        found = await database_sync_to_async(auth.viewers)([session])
        if version == hub().rights_version:
            return found.get(session)


def _obey(watcher: Watcher, message: dict[str, Any]) -> None:
    match message.get("type"):
        case "ack":
            watcher.acknowledge(_whole(message.get("n")))
        case "watch":
            watcher.look_at(_viewport(message.get("viewport")))
        case _:
            raise InvalidFix("bad_type", "Send watch or ack.")


async def _answer(
    device: auth.Identity, message: dict[str, Any], text: str
) -> dict[str, Any]:
    if message.get("type") != "fixes":
        _check_size(text, MOST_TEXT)
    match message.get("type"):
        case "fix":
            [outcome] = await ingest.accept(device, [native.fix(message)])
            return {"result": outcome.text}
        case "fixes":
            return {"results": await doors.accept_batch(device, message.get("fixes"))}
        case "start":
            await ingest.start(device)
            return {"result": "accepted"}
        case "stop":
            return await _stop(device, message.get("fix"))
        case "ping":
            await ingest.touch(device)
            return {"result": "accepted"}
    raise InvalidFix("bad_type", "Send fix, fixes, start, stop or ping.")


async def _stop(device: auth.Identity, last: Any) -> dict[str, Any]:
    """A journey ends even if its last fix is unusable; the answer says both."""
    final: Fix | None = None
    unusable: dict[str, Any] = {}
    try:
        final = None if last is None else native.fix(last)
    except InvalidFix as error:
        doors.count_invalid("native", error)
        unusable = {"fix": f"invalid:{error.reason}"}
    return {"result": await ingest.stop(device, final)} | unusable


def _check_size(text: str, most: int) -> None:
    if len(text) > most:
        raise InvalidFix("too_big", "At most 16 KiB, and 64 KiB for fixes.")


def _id(value: Any) -> str | float | None:
    """What an answer can repeat: anything deeper could not even be encoded again."""
    if isinstance(value, str) and len(value) <= LONGEST_ID:
        return value
    if value is None or (
        isinstance(value, int | float) and not isinstance(value, bool)
    ):
        return value
    raise InvalidFix(
        "bad_id", f"id must be a number or at most {LONGEST_ID} characters."
    )


def _error(error: InvalidFix, message_id: str | float | None = None) -> str:
    content: dict[str, Any] = {
        "type": "error",
        "reason": error.reason,
        "detail": error.detail,
    }
    if message_id is not None:
        content |= {"id": message_id}
    return orjson.dumps(content).decode()


def _offered(scope: Any) -> str:
    """The token among a browser's subprotocols; it is never echoed."""
    for name in scope.get("subprotocols", []):
        if name.startswith(TOKEN_PROTOCOL):
            return str(name.removeprefix(TOKEN_PROTOCOL))
    return ""


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidFix("bad_ack", "n must be the number of a frame.")
    return value


def _viewport(value: Any) -> tuple[float, float, float, float] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 4:
        raise InvalidFix("bad_viewport", "viewport must be [west, south, east, north].")
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InvalidFix("bad_viewport", "viewport must hold four numbers.")
        if not isfinite(number) or abs(number) > 1e6:
            raise InvalidFix("bad_viewport", "viewport must be in degrees.")
    west, south, east, north = (float(number) for number in value)
    return west, min(south, north), east, max(south, north)
