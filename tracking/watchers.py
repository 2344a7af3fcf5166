"""One open map: what it may see, what it looks at, what it has acknowledged.

Before it: `tracking.consumers`, one per browser. After it: the ASGI server's `send`,
which is never awaited here, so that a slow reader holds up nobody.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tracking.cells import Cell, covering

Message = dict[str, Any]
Send = Callable[[Message], Coroutine[Any, Any, None]]

WINDOW = 8
SILENCE_S = 30.0
NOT_LOGGED_IN, TOO_SLOW = 4401, 4008
MOST_WAITING = 200
CLOSE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What a user may see: whole fleets, and single devices by fleet. Hashable."""

    fleets: tuple[int, ...] = ()
    devices: tuple[tuple[int, str], ...] = ()

    def fleet_ids(self) -> set[int]:
        return {*self.fleets, *(fleet for fleet, _device in self.devices)}

    def covers(self, fleet_id: int, device: str) -> bool:
        return fleet_id in self.fleets or (fleet_id, device) in self.devices


@dataclass(frozen=True, slots=True)
class View:
    """Watchers with equal views share their frames."""

    sight: Sight
    level: int
    cells: frozenset[Cell]


class Watcher:
    """The hub's side of one socket. `since`: the tick up to which it has all; -1 none."""

    def __init__(
        self, user_id: int, sight: Sight, send: Send, session: str = ""
    ) -> None:
        self.user_id = user_id
        self.session = session
        self.sight = sight
        self.view: View | None = None
        self.since = -1
        self.roster_since = -1
        self.last_sent_at = 0.0
        self.is_closing = False
        self.task = asyncio.current_task()
        self._send = send
        self._pending: asyncio.Task[None] | None = None
        self._unacknowledged: deque[int] = deque()
        self._progress_at = asyncio.get_running_loop().time()
        self._waiting: deque[Message] = deque(maxlen=MOST_WAITING)

    def look_at(self, viewport: tuple[float, float, float, float] | None) -> None:
        """West, south, east, north, or everything; starts with a full frame."""
        level, cells = covering(viewport)
        self.view, self.since = View(self.sight, level, cells), -1

    def see(self, sight: Sight) -> None:
        """Rights have changed: what is no longer allowed goes with a full frame."""
        self.sight, self.roster_since = sight, -1
        if self.view is not None:
            self.view, self.since = replace(self.view, sight=sight), -1

    def is_ready(self) -> bool:
        """Reads as fast as frames come; else they wait, and only the newest counts."""
        return (
            self._pending is None
            and not self.is_closing
            and len(self._unacknowledged) < WINDOW
        )

    def push_frame(self, number: int, message: Message) -> None:
        now = asyncio.get_running_loop().time()
        if not self._unacknowledged:
            self._progress_at = now
        self._unacknowledged.append(number)
        self.push(message)

    def push(self, message: Message) -> None:
        """Send without waiting; behind a stuck socket a bounded number waits."""
        if self.is_closing:
            return
        if self._pending is not None:
            self._waiting.append(message)
            return
        self.last_sent_at = asyncio.get_running_loop().time()
        coroutine = self._send(message)
        try:
            future = coroutine.send(None)
        except StopIteration:
            return
        except Exception:  # noqa: BLE001 (the socket is gone; its consumer ends it)
            self.is_closing = True
            return
        self._pending = asyncio.create_task(self._finish(coroutine, future))

    def acknowledge(self, number: int) -> None:
        while self._unacknowledged and self._unacknowledged[0] <= number:
            self._unacknowledged.popleft()
            self._progress_at = asyncio.get_running_loop().time()

    def is_stuck(self) -> bool:
        silent_for = asyncio.get_running_loop().time() - self._progress_at
        return bool(self._unacknowledged) and silent_for > SILENCE_S

    def close(self, code: int) -> None:
        """Close the socket; one that does not even read the close is cut off."""
        if not self.is_closing:
            self.is_closing = True
            self._pending = asyncio.create_task(self._close(code))

    async def _finish(self, coroutine: Coroutine[Any, Any, None], future: Any) -> None:
        """Drive on what `push` began: the coroutine has already yielded its future."""
        with suppress(Exception):
            while True:
                if future is None:
                    await asyncio.sleep(0)
                else:
                    future._asyncio_future_blocking = False
                    await asyncio.wait([future])
                try:
                    future = coroutine.send(None)
                except StopIteration:
                    break
        self._pending = None
        while self._waiting and self._pending is None:
            self.push(self._waiting.popleft())

    async def _close(self, code: int) -> None:
        with suppress(Exception):
            closing = self._send({"type": "websocket.close", "code": code})
            await asyncio.wait_for(closing, CLOSE_TIMEOUT_S)
            return
        if self.task is not None:
            self.task.cancel()
