"""One per process: hears Redis once, and tells each watcher what changed where it looks.

Before it: `tracking.subscriber` fills the boards. After it: `tracking.watchers`. A tick
builds one message per (view, since), joined from fragments that ingest encoded once,
and hands the same bytes to everybody who looks there. It never waits for a socket.
"""

import asyncio
import logging
import time
from asyncio import AbstractEventLoop, Task, get_running_loop
from collections.abc import Iterable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import orjson
from django.conf import settings
from prometheus_client import Counter, Gauge

from tracking.auth import Identity
from tracking.board import TOMBSTONES_KEPT_TICKS, Board, Changes
from tracking.cells import Cell
from tracking.ingest import now_ms
from tracking.roster import Roster
from tracking.subscriber import Subscriber
from tracking.upkeep import Upkeep
from tracking.watchers import SILENCE_S, TOO_SLOW, WINDOW, Message, Sight, View, Watcher

logger = logging.getLogger(__name__)

FRAMES = Counter("drover_tracking_frames", "Frames handed to watchers.")
WATCHERS = Gauge(
    "drover_tracking_watchers", "Open map sockets.", multiprocess_mode="livesum"
)
FLEET_KEPT_S = 60.0
KEEPALIVE_S = 15.0
PRUNE_EVERY_TICKS = 100


class DeviceSocket(Protocol):
    """An open device socket, cut off when its token or its fleet changes."""

    token: str
    device: Identity

    def cut(self, code: int) -> None: ...


class Hub:
    def __init__(self) -> None:
        # Grows over restarts of the process too, so that no client sees it go back.
        self.tick = time.time_ns() // 1_000_000
        self.epoch = ""
        self.boards: dict[int, Board] = {}
        self.rosters: dict[int, Roster] = {}
        self.watchers: set[Watcher] = set()
        self.device_sockets: set[DeviceSocket] = set()
        # Grows before rights are read again: who joins meanwhile reads them again too.
        self.rights_version = 0
        self._wanted_until: dict[int, float] = {}
        self._frames: dict[tuple[View, int], Message | None] = {}
        self._cells: dict[tuple[int, int, Cell, int], Changes] = {}
        self._connected = asyncio.Event()
        self._tasks: list[Task[None]] = []

    # --- its life ---------------------------------------------------------------

    def ensure_running(self) -> None:
        if not self._tasks:
            upkeep = Upkeep(self)
            self._tasks = [
                asyncio.create_task(_for_ever("subscriber", Subscriber(self).run)),
                asyncio.create_task(_for_ever("ticks", self._ticking)),
                *(
                    asyncio.create_task(_for_ever(name, run))
                    for name, run in upkeep.loops().items()
                ),
            ]

    async def close(self) -> None:
        """For tests and shutdown: end every task of the hub."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_until_connected(self) -> None:
        """Raises TimeoutError where Redis has not been reached yet."""
        self.ensure_running()
        async with asyncio.timeout(10):
            await self._connected.wait()

    def join(self, watcher: Watcher) -> None:
        """From now on the watcher hears events, rosters and, once it looks, frames."""
        self.watchers.add(watcher)
        WATCHERS.inc()
        watcher.push(text_message(self.hello()))

    def leave(self, watcher: Watcher) -> None:
        if watcher in self.watchers:
            self.watchers.discard(watcher)
            WATCHERS.dec()

    def hello(self) -> dict[str, Any]:
        return {
            "type": "hello",
            "v": 1,
            "epoch": self.epoch,
            "tick_ms": settings.TRACKING_TICK_MS,
            "ttl_s": settings.TRACKING_LIVE_TTL_S,
            "now": now_ms(),
            "window": WINDOW,
        }

    # --- what the subscriber asks and tells ------------------------------------

    def wanted(self) -> set[int]:
        """Fleets that somebody watches, or did a minute ago."""
        now = get_running_loop().time()
        for watcher in self.watchers:
            for fleet_id in watcher.sight.fleet_ids():
                self._wanted_until[fleet_id] = now + FLEET_KEPT_S
        for fleet_id in [f for f, until in self._wanted_until.items() if until < now]:
            del self._wanted_until[fleet_id]
            self.rosters.pop(fleet_id, None)
        return set(self._wanted_until)

    def new_epoch(self, epoch: str) -> None:
        """Nothing that a watcher has is proved any more: full frames for all."""
        self.epoch = epoch
        self._connected.set()
        self.resync(self.watchers)

    def missed(self, fleet_id: int) -> None:
        """Events may have been lost: what they said of a fleet is not believed."""
        if fleet_id in self.rosters:
            self.rosters[fleet_id].doubt()

    def resync(self, watchers: Iterable[Watcher]) -> None:
        for watcher in watchers:
            watcher.since = watcher.roster_since = -1

    def heard(self, fleet_id: int, device: str, event: str, at_ms: int) -> None:
        """A start, a stop or a loss is told at once."""
        if fleet_id in self.rosters:
            self.rosters[fleet_id].hear(device, event, at_ms)
        message = text_message(
            {"type": "event", "event": event, "id": device, "t": at_ms}
        )
        for watcher in self.watchers:
            if watcher.sight.covers(fleet_id, device):
                watcher.push(message)

    # --- ticks ------------------------------------------------------------------

    async def _ticking(self) -> None:
        clock, step = get_running_loop().time, settings.TRACKING_TICK_MS / 1000
        due = clock() + step
        while True:
            await asyncio.sleep(max(0.0, due - clock()))
            # After a stall the missed ticks are skipped, not made up for.
            due = max(due + step, clock())
            self.run_tick()

    def run_tick(self) -> None:
        self.tick += 1
        self._frames.clear()
        self._cells.clear()
        for watcher in tuple(self.watchers):
            self._serve(watcher)
        if self.tick % PRUNE_EVERY_TICKS == 0:
            for board in self.boards.values():
                board.prune(self.tick)

    def _serve(self, watcher: Watcher) -> None:
        if watcher.is_stuck() and not watcher.is_closing:
            logger.info(
                "a watcher acknowledged nothing for %d s",
                SILENCE_S,
                extra={"action": "watcher_closed", "user": watcher.user_id},
            )
            watcher.close(TOO_SLOW)
        if not watcher.is_ready():
            return
        if watcher.since < self.tick - TOMBSTONES_KEPT_TICKS:
            # What left since then may be forgotten already: only a full frame is true.
            watcher.since = -1
        view = watcher.view
        if view is not None and self._is_loaded(view.sight):
            frame = self._frame(view, watcher.since)
            watcher.since = self.tick
            if frame is not None:
                FRAMES.inc()
                watcher.push_frame(self.tick, frame)
        if get_running_loop().time() - watcher.last_sent_at > KEEPALIVE_S:
            watcher.push(text_message({"type": "tick", "n": self.tick}))

    def _is_loaded(self, sight: Sight) -> bool:
        return all(fleet_id in self.boards for fleet_id in sight.fleet_ids())

    def _frame(self, view: View, since: int) -> Message | None:
        """Built once for all who look at the same cells since the same tick."""
        key = (view, since)
        if key not in self._frames:
            self._frames[key] = self._build(view, since)
        return self._frames[key]

    def _build(self, view: View, since: int) -> Message | None:
        changes = self._changes(view, since)
        is_full = since < 0
        if not is_full and not changes.items and not changes.gone:
            return None
        gone = [] if is_full else changes.gone
        return {
            "type": "websocket.send",
            "text": f'{{"type":"frame","n":{self.tick},"epoch":"{self.epoch}",'
            f'"cursor":"{self.epoch}:{self.tick}","full":{str(is_full).lower()},'
            f'"items":[{",".join(changes.items)}],"gone":{orjson.dumps(gone).decode()}}}',
        }

    def _changes(self, view: View, since: int) -> Changes:
        all_changes = Changes()
        for fleet_id in view.sight.fleets:
            for cell in view.cells:
                changes = self._changed(fleet_id, view.level, cell, since)
                all_changes.items += changes.items
                all_changes.gone += changes.gone
        for fleet_id, device in view.sight.devices:
            board = self.boards[fleet_id]
            changes = board.changed_devices([device], view.level, view.cells, since)
            all_changes.items += changes.items
            all_changes.gone += changes.gone
        # Gone from one cell may mean moved into another one of the view, or, with its
        # fleet changed, onto another board.
        all_changes.gone = [d for d in all_changes.gone if not self._shows(view, d)]
        return all_changes

    def _shows(self, view: View, device: str) -> bool:
        return any(
            self.boards[fleet_id].is_in(device, view.level, view.cells)
            for fleet_id in view.sight.fleet_ids()
            if view.sight.covers(fleet_id, device)
        )

    def _changed(self, fleet_id: int, level: int, cell: Cell, since: int) -> Changes:
        key = (fleet_id, level, cell, since)
        if key not in self._cells:
            self._cells[key] = self.boards[fleet_id].changed(level, cell, since)
        return self._cells[key]


def text_message(content: dict[str, Any]) -> Message:
    return {"type": "websocket.send", "text": orjson.dumps(content).decode()}


async def _for_ever(name: str, run: Any) -> None:
    """A defect in one loop is logged and retried; it must not silence the hub."""
    while True:
        try:
            await run()
        except Exception:
            logger.exception(
                "the hub's %s failed", name, extra={"action": "hub_loop_failed"}
            )
        await asyncio.sleep(1)


_HUBS: WeakKeyDictionary[AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of this process (of the running event loop)."""
    loop = get_running_loop()
    if loop not in _HUBS:
        _HUBS[loop] = Hub()
    return _HUBS[loop]
