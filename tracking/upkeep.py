"""The hub's slower duties: rosters, lost devices, permissions, control events.

Before it: `tracking.hub`, which starts each loop once. After it: rosters to watchers,
`lost` announced by one atomic script, sockets that lost their right cut off.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import DatabaseError, InterfaceError
from prometheus_client import Counter
from redis import RedisError

from tracking import auth, history, keys, live, roster
from tracking.ingest import Unavailable, now_ms
from tracking.subscriber import stop_if_cancelled
from tracking.watchers import NOT_LOGGED_IN, Message, Sight

if TYPE_CHECKING:
    from tracking.hub import Hub

logger = logging.getLogger(__name__)

LOST = Counter("drover_tracking_lost", "Devices whose deadline passed without a word.")
ROSTER_EVERY_S = 5.0
NAMES_EVERY_S = 30.0
EXPIRE_EVERY_S = 2.0
RIGHTS_EVERY_S = 30.0
COME_BACK = 1012


class Upkeep:
    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._failed: set[int] = set()
        self._changed = False
        self._roster_tick = 0

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "rosters": self._rosters,
            "expiry": self._expiry,
            "rights": self._rights,
            "control": self._control,
        }

    # --- rosters ----------------------------------------------------------------

    async def _rosters(self) -> None:
        """Newcomers get theirs at once, everybody the changes every 5 s."""
        clock = asyncio.get_running_loop().time
        due = 0.0
        while True:
            fleets = set(self._hub.boards)
            is_due = clock() >= due
            if is_due:
                self._failed.clear()
            if (
                is_due
                or self._changed
                or fleets - set(self._hub.rosters) - self._failed
            ):
                self._changed = False
                await self._refresh(fleets)
                due = clock() + ROSTER_EVERY_S if is_due else due
            self._tell(everybody=is_due)
            stop_if_cancelled()
            await asyncio.sleep(0.25)

    async def _refresh(self, fleets: set[int]) -> None:
        self._roster_tick += 1
        for fleet_id in fleets:
            try:
                await self._refresh_fleet(fleet_id)
            except (DatabaseError, InterfaceError, RedisError) as error:
                self._failed.add(fleet_id)
                logger.warning(
                    "no new roster: %s", error, extra={"action": "roster_failed"}
                )

    async def _refresh_fleet(self, fleet_id: int) -> None:
        now = asyncio.get_running_loop().time()
        found = self._hub.rosters.get(fleet_id) or roster.Roster()
        if now > found.known_until:
            found.known_until = now + NAMES_EVERY_S
            await self._read_names(fleet_id, found)
        words = await roster.last_words(fleet_id)
        board = self._hub.boards.get(fleet_id)
        if board is not None:
            found.refresh(board, words, now_ms(), self._roster_tick)
            self._hub.rosters[fleet_id] = found

    async def _read_names(self, fleet_id: int, found: roster.Roster) -> None:
        # Who was on the map before the reading and is not in it has left the fleet.
        shown = self._hub.boards[fleet_id].shown()
        try:
            found.known = await database_sync_to_async(roster.load)(fleet_id)
        except (DatabaseError, InterfaceError):
            found.known_until = 0.0
            raise
        if strangers := [device for device in shown if device not in found.known]:
            withdraw = sync_to_async(live.withdraw, thread_sensitive=False)
            await withdraw(fleet_id, strangers)

    def _tell(self, *, everybody: bool) -> None:
        messages: dict[tuple[Sight, int], Message | None] = {}
        for watcher in self._hub.watchers:
            if not everybody and watcher.roster_since >= 0:
                continue
            loaded = watcher.sight.fleet_ids() <= set(self._hub.rosters)
            if not loaded or not watcher.is_ready():
                continue
            key = (watcher.sight, watcher.roster_since)
            if key not in messages:
                messages[key] = self._message(*key)
            message = messages[key]
            watcher.roster_since = self._roster_tick
            if message is not None:
                watcher.push(message)

    def _message(self, sight: Sight, since: int) -> Message | None:
        items: list[str] = []
        gone: list[str] = []
        for fleet_id in sight.fleet_ids():
            found = self._hub.rosters[fleet_id]
            only = {device for fleet, device in sight.devices if fleet == fleet_id}
            new, old = found.changed(since, None if fleet_id in sight.fleets else only)
            items, gone = items + new, gone + old
        # A device may have moved from one fleet to another.
        gone = [device for device in gone if not self._lists(sight, device)]
        if since >= 0 and not items and not gone:
            return None
        gone = gone if since >= 0 else []
        return {
            "type": "websocket.send",
            "text": f'{{"type":"roster","full":{str(since < 0).lower()},'
            f'"items":[{",".join(items)}],"gone":{orjson.dumps(gone).decode()}}}',
        }

    def _lists(self, sight: Sight, device: str) -> bool:
        return any(
            sight.covers(fleet_id, device)
            and device in self._hub.rosters[fleet_id].known
            for fleet_id in sight.fleet_ids()
        )

    # --- lost devices -----------------------------------------------------------

    async def _expiry(self) -> None:
        """Every web process runs it; the script lets only one announce a loss."""
        while True:
            stop_if_cancelled()
            await asyncio.sleep(EXPIRE_EVERY_S)
            for fleet_id in tuple(self._hub.boards):
                await self._expire(fleet_id)

    async def _expire(self, fleet_id: int) -> None:
        try:
            lost = await sync_to_async(live.expire, thread_sensitive=False)(fleet_id)
            if lost:
                LOST.inc(len(lost))
                await database_sync_to_async(history.settle_lost)(fleet_id)
        except (RedisError, DatabaseError, InterfaceError) as error:
            logger.warning(
                "lost devices not settled: %s", error, extra={"action": "expiry_failed"}
            )

    # --- rights and control events ------------------------------------------------

    async def _rights(self) -> None:
        """Whatever became of the events: rights are read again every 30 s."""
        while True:
            await asyncio.sleep(RIGHTS_EVERY_S)
            await self.check_rights()
            await self._check_tokens()

    async def check_rights(self) -> None:
        """Who has lost a right stops seeing; who has logged out is closed."""
        self._hub.rights_version += 1
        watchers = tuple(self._hub.watchers)
        sessions = {watcher.session for watcher in watchers}
        try:
            found = await database_sync_to_async(auth.viewers)(sessions)
        except (DatabaseError, InterfaceError) as error:
            logger.warning(
                "rights not read: %s", error, extra={"action": "rights_failed"}
            )
            return
        for watcher in watchers:
            viewer = found.get(watcher.session)
            if viewer is None:
                watcher.close(NOT_LOGGED_IN)
            elif viewer[1] != watcher.sight:
                watcher.see(viewer[1])

    async def _check_tokens(self) -> None:
        """Cut off the device sockets whose token or fleet is no longer what it was."""
        auth.forget_tokens()
        for socket in tuple(self._hub.device_sockets):
            with suppress(Unavailable):
                identity = await auth.identify(socket.token)
                if identity is None:
                    socket.cut(NOT_LOGGED_IN)
                elif identity.fleet_id != socket.device.fleet_id:
                    socket.cut(COME_BACK)

    async def _control(self) -> None:
        """The hub's one channel in the control group."""
        layer = get_channel_layer()
        if layer is None:
            raise RuntimeError("CHANNEL_LAYERS has no default")
        channel = await layer.new_channel()
        await layer.group_add(keys.CONTROL_GROUP, channel)
        while True:
            stop_if_cancelled()
            event = await layer.receive(channel)
            if event["type"] == "tracking.rights":
                await self.check_rights()
            elif event["type"] == "tracking.tokens":
                await self._check_tokens()
            elif event["type"] == "tracking.devices":
                for found in self._hub.rosters.values():
                    found.known_until = 0.0
                self._changed = True
                await self._check_tokens()
            elif event["type"] == "tracking.resync":
                self._hub.resync(self._hub.watchers)
