"""The hub's ear: one Redis connection that hears every watched fleet.

Before it: the publications of `tracking.live`. After it: `tracking.hub`'s boards. On
every (re)connect: subscribe, wait for each confirmation, read the snapshot while the
connection collects what comes in the meantime, go on from there under a new epoch.
"""

import asyncio
import logging
import secrets
from typing import Any, Protocol

from redis import RedisError

from project.redis import async_client
from tracking import keys, live
from tracking.board import Board
from tracking.cells import Cell

logger = logging.getLogger(__name__)

POLL_S = 0.05
EPOCH_CHECK_S = 2.0
FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 2.0


class Listener(Protocol):
    """What a hub gives its subscriber."""

    boards: dict[int, Board]
    tick: int

    def wanted(self) -> set[int]: ...
    def new_epoch(self, epoch: str) -> None: ...
    def missed(self, fleet_id: int) -> None: ...
    def heard(self, fleet_id: int, device: str, event: str, at_ms: int) -> None: ...


class Gap(Exception):
    """Publications are missing: the fleet is read again."""


def stop_if_cancelled() -> None:
    """redis-py swallows a cancellation that comes while it connects."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Subscriber:
    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._fleets: dict[str, int] = {}
        self._pubsub: Any = None
        self._epoch = ""

    async def run(self) -> None:
        """For ever: connect, listen, and on any loss connect again."""
        delay = FIRST_RETRY_S
        while True:
            try:
                await self._connect()
                delay = FIRST_RETRY_S
                await self._listen()
            except (RedisError, OSError) as error:
                logger.warning(
                    "REDIS_URL is not reachable: %s; next try in %.1f s",
                    error,
                    delay,
                    extra={"action": "hub_disconnected"},
                )
            stop_if_cancelled()
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_RETRY_S)

    async def _connect(self) -> None:
        # A subscriber waits as long as nothing happens; health checks find a dead peer.
        client = async_client("tracking", decode_responses=True, socket_timeout=None)
        self._pubsub = client.pubsub()
        self._fleets = {}
        self._epoch = await _epoch()

    async def _listen(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            await self._follow_wanted()
            self._listener.new_epoch(f"{self._epoch}.{secrets.token_hex(4)}")
            checked_at = followed_at = clock()
            while True:
                stop_if_cancelled()
                # Who watches what is asked per step: per message it costs too much.
                if clock() - followed_at > POLL_S:
                    await self._follow_wanted()
                    followed_at = clock()
                if clock() - checked_at > EPOCH_CHECK_S:
                    await self._check_epoch()
                    checked_at = clock()
                if not self._fleets:
                    await asyncio.sleep(POLL_S)
                    continue
                message = await self._pubsub.get_message(timeout=POLL_S)
                if message and message["type"] == "message":
                    await self._take(message["channel"], message["data"])
        finally:
            await self._pubsub.aclose()
            await self._pubsub.connection_pool.aclose()

    async def _check_epoch(self) -> None:
        """Redis may have been emptied while the connection stayed."""
        if await _epoch() != self._epoch:
            raise ConnectionError("Redis lost its data: reading everything again")

    async def _follow_wanted(self) -> None:
        known = set(self._fleets.values())
        wanted = self._listener.wanted()
        for fleet_id in wanted - known:
            await self._join(fleet_id)
        for fleet_id in known - wanted:
            await self._pubsub.unsubscribe(*keys.channels(fleet_id))
            self._fleets = {c: f for c, f in self._fleets.items() if f != fleet_id}
        # Also one of before an outage, which nobody wanted again.
        for fleet_id in set(self._listener.boards) - wanted:
            del self._listener.boards[fleet_id]

    async def _join(self, fleet_id: int) -> None:
        names = keys.channels(fleet_id)
        await self._pubsub.subscribe(*names)
        missing = set(names)
        async with asyncio.timeout(5):
            while missing:
                message = await self._pubsub.get_message(timeout=1.0)
                if message and message["type"] == "subscribe":
                    missing.discard(message["channel"])
                elif message and message["type"] == "message":
                    await self._take(message["channel"], message["data"])
        self._fleets |= dict.fromkeys(names, fleet_id)
        await self._read(fleet_id)

    async def _read(self, fleet_id: int) -> None:
        """Make the board equal to Redis; later publications are in the connection."""
        devices, sequences = await snapshot(fleet_id)
        board = self._listener.boards.setdefault(fleet_id, Board())
        board.replace(devices, self._listener.tick + 1)
        board.sequences = sequences
        self._listener.missed(fleet_id)

    async def _take(self, channel: str, text: str) -> None:
        fleet_id = self._fleets.get(channel)
        board = self._listener.boards.get(fleet_id) if fleet_id is not None else None
        if fleet_id is None or board is None:
            return
        try:
            self._apply(fleet_id, board, text)
        except Gap as gap:
            logger.warning("%s", gap, extra={"action": "hub_gap", "fleet": fleet_id})
            await self._read(fleet_id)

    def _apply(self, fleet_id: int, board: Board, text: str) -> None:
        kind, device, rest = text.split(" ", 2)
        if kind == "event":
            event, at_ms = rest.split(" ")
            self._listener.heard(fleet_id, device, event, int(at_ms))
            return
        cell, previous, sequence, *more = rest.split(" ", 4)
        if not _follows(board, cell, int(previous), int(sequence)):
            return
        if kind == "gone":
            spot = board.spots.get(device)
            if spot and spot.cell == parse_cell(cell):
                board.remove(device, self._listener.tick + 1)
            return
        fixed_at_ms, fragment = more
        board.put(
            device,
            parse_cell(cell),
            int(fixed_at_ms),
            fragment,
            self._listener.tick + 1,
        )


def _follows(board: Board, cell: str, previous: int, sequence: int) -> bool:
    """False for what the snapshot has already; raises Gap when something is missing."""
    known = board.sequences.get(cell, 0)
    if sequence <= known:
        return False
    if previous != known:
        raise Gap(f"cell {cell}: after {known} came {previous}")
    board.sequences[cell] = sequence
    return True


async def _epoch() -> str:
    """Random per life of the data, and the server's replication id per its start."""
    client = live.async_redis()
    new = secrets.token_hex(8)
    stored: Any = await client.set(keys.EPOCH, new, nx=True, get=True)
    info = await client.info("replication")
    return f"{stored or new}.{info.get('master_replid', '')[:12]}"


async def snapshot(
    fleet_id: int,
) -> tuple[dict[str, tuple[Cell, int, str]], dict[str, int]]:
    """Live devices as (cell, fixed_at ms, fragment), and the sequences; one moment."""
    client = live.async_redis()
    pipe = client.pipeline(transaction=True)
    pipe.zrange(keys.active(fleet_id), 0, -1)
    pipe.zrange(keys.ended(fleet_id), 0, -1)
    pipe.hgetall(keys.sequence(fleet_id))
    active, ended, sequences = await pipe.execute()
    devices = [*active, *ended]
    names = [keys.live(fleet_id, device) for device in devices]
    values: list[Any] = await client.mget(names) if names else []
    found = {}
    for device, value in zip(devices, values, strict=True):
        if value:
            cell, fixed_at_ms, fragment = value.split(" ", 2)
            found[device] = (parse_cell(cell), int(fixed_at_ms), fragment)
    return found, {cell: int(number) for cell, number in sequences.items()}


def parse_cell(name: str) -> Cell:
    x, _, y = name.partition("/")
    return int(x), int(y)
