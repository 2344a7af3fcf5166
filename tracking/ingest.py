"""The one door behind every protocol: filter → live.put → broadcast → buffer.

Before it: a door with the fixes of one authenticated device. After it: one script that
stores, publishes and buffers in the same step (`live`), then the hubs and `history`.

The story is a generator that asks for one round trip at a time, so that doors run it
with asyncio and Celery workers synchronously: one core, no twin.
"""

import logging
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol

from channels.db import database_sync_to_async
from django.db import DatabaseError, InterfaceError
from prometheus_client import Counter
from redis import RedisError

from tracking import history, live
from tracking.cells import cell_of
from tracking.filters import Outcome, after, judge
from tracking.fixes import Fix
from tracking.fragments import fragment, with_state
from tracking.live import Applied, Put
from tracking.state import State

logger = logging.getLogger(__name__)

FIXES = Counter("drover_tracking_fixes", "Fixes by outcome.", ["door", "outcome"])
MOST_CONFLICTS = 100
MOST_REMEMBERED = 20_000

Story = Generator[list[Put], list[Applied], None]
Plan = Callable[[State, int], list[Put]]


class Unavailable(Exception):
    """Nothing is lost, try again: Redis is away or the history buffer is full."""


class Sender(Protocol):
    """What the doors know of a device; `models.Device` is one too."""

    @property
    def id(self) -> int: ...
    @property
    def fleet_id(self) -> int: ...


async def accept(
    device: Sender, fixes: Sequence[Fix], *, door: str = "native"
) -> list[Outcome]:
    """Take fixes of one device in any order; one outcome for each, in their order.

    Raises Unavailable; then the sender keeps them and sends them again.
    """
    outcomes: dict[int, Outcome] = {}
    await _drive(_applying(device, _fixes(device, fixes, door, outcomes)))
    return _counted(outcomes, door)


def accept_sync(
    device: Sender, fixes: Sequence[Fix], *, door: str = "stream"
) -> list[Outcome]:
    """The same for Celery workers and commands."""
    outcomes: dict[int, Outcome] = {}
    _drive_sync(_applying(device, _fixes(device, fixes, door, outcomes)))
    return _counted(outcomes, door)


async def touch(device: Sender) -> None:
    """A sign of life without a fix: the live position stays. Raises Unavailable."""
    await _drive(_applying(device, _once(lambda state: _touched(device, state))))


async def start(device: Sender) -> None:
    """Tracking begins; watchers hear of it, a stopped marker is live again."""
    await _drive(_applying(device, _once(lambda state: _started(device, state))))
    try:
        await database_sync_to_async(history.mark_started)(device.id, now_ms())
    except (DatabaseError, InterfaceError) as error:
        # The next flushed fix of the device says the same.
        _warn_database(error)


async def stop(device: Sender, fix: Fix | None, *, door: str = "native") -> str:
    """Tracking ends: `saved` once PostgreSQL has the final fix, else `accepted`.

    With the database away the stop waits in the durable buffer. Raises Unavailable
    when neither store could take it.
    """
    record, plan = _stop(device, fix, door)
    try:
        await _drive(_applying(device, plan))
        is_buffered = True
    except Unavailable:
        is_buffered = False
    try:
        await database_sync_to_async(history.write)([record()])
    except (DatabaseError, InterfaceError) as error:
        _warn_database(error)
        if not is_buffered:
            raise Unavailable("neither Redis nor PostgreSQL is reachable") from error
        return "accepted"
    return "saved"


def _fixes(
    device: Sender, fixes: Sequence[Fix], door: str, outcomes: dict[int, Outcome]
) -> Plan:
    """By fix time, so that a batch in any order ends in the same live state.

    Of several fixes at the same time the most accurate comes first, and is shown.
    """
    order = sorted(range(len(fixes)), key=lambda index: _rank(fixes[index]))

    def plan(state: State, done: int) -> list[Put]:
        puts, now = [], now_ms()
        for index in order[done:]:
            outcome = judge(fixes[index], state, now)
            put = _put(device, fixes[index], outcome, state, (now, door))
            outcomes[index], state = outcome, put.state
            puts.append(put)
        return puts

    return plan


def _rank(fix: Fix) -> tuple[float, ...]:
    accuracy_m = inf if fix.accuracy_m is None else fix.accuracy_m
    return fix.fixed_at_ms, accuracy_m, fix.latitude, fix.longitude


def _put(
    device: Sender, fix: Fix, outcome: Outcome, state: State, origin: tuple[int, str]
) -> Put:
    is_again = outcome.result == "duplicate"
    # A fix that is sent again changes nothing, so it must not unsettle the others.
    version = state.version if is_again else secrets.token_hex(8)
    new = after(state, fix, outcome, version)
    if outcome.shown:
        new = _placed(new, device, fix, "live")
    record = ""
    if not is_again or not state.buffered:
        record = history.record(device.id, fix, outcome, *origin).dump()
    mode = "show" if outcome.shown else _unshown(outcome, state)
    return _call(device, mode, state, new, record)


def _unshown(outcome: Outcome, state: State) -> str:
    is_word = outcome.result == "duplicate" or outcome.reason == "not_moved"
    return "touch" if is_word and not state.stopped else "note"


def _placed(state: State, device: Sender, fix: Fix, shown_as: str) -> State:
    x, y = cell_of(fix.latitude, fix.longitude)
    text = fragment(device.id, fix, state.newest_ms, shown_as)
    return replace(state, cell=f"{x}/{y}", fragment=text)


def _touched(device: Sender, state: State) -> Put:
    mode = "note" if state.stopped else "touch"
    return _call(device, mode, state, state)


def _started(device: Sender, state: State) -> Put:
    new = replace(
        state,
        version=secrets.token_hex(8),
        stopped=False,
        fragment=with_state(state.fragment, "live"),
    )
    mode = "show" if state.stopped and state.fragment else "touch"
    return _call(device, mode, state, new)


def _stop(
    device: Sender, fix: Fix | None, door: str
) -> tuple[Callable[[], history.Record], Plan]:
    """The plan of a stop, and what it wrote into the buffer once it has run."""
    now = now_ms()
    record = history.stopped(device.id, fix, None, now, door)

    def stopped(state: State) -> Put:
        nonlocal record
        new = replace(state, version=secrets.token_hex(8))
        outcome = judge(fix, state, now) if fix else None
        if fix and outcome and outcome.shown_ms:
            # A change of state always passes: the last metres count too.
            outcome = replace(outcome, shown=True, reason="")
            new = _placed(after(new, fix, outcome, new.version), device, fix, "stopped")
        new = replace(new, stopped=True, fragment=with_state(new.fragment, "stopped"))
        record = history.stopped(device.id, fix, outcome, now, door)
        return _call(device, "stop", state, new, record.dump())

    return lambda: record, _once(stopped)


def _once(make: Callable[[State], Put]) -> Plan:
    return lambda state, done: [] if done else [make(state)]


def _call(device: Sender, mode: str, old: State, new: State, record: str = "") -> Put:
    return Put(
        device.fleet_id, device.id, old.version, mode, new, old.cell, record=record
    )


def _applying(device: Sender, plan: Plan) -> Story:
    """Plan from the state last seen; where another connection was faster, plan again."""
    key = (device.fleet_id, device.id)
    state, done, is_full = _REMEMBERED.pop(key, State()), 0, False
    for _ in range(MOST_CONFLICTS):
        puts = plan(state, done)
        if not puts:
            break
        for put, applied in zip(puts, (yield puts), strict=True):
            if applied.conflict is not None:
                state = applied.conflict
                break
            is_full |= applied.is_full
            state, done = put.state, done + 1
            if put.record:
                state = replace(state, buffered=not applied.is_full)
    else:
        raise Unavailable("too many connections write this device at once")
    _remember(key, state)
    if is_full:
        raise Unavailable("the history buffer is full")


_REMEMBERED: dict[tuple[int, int], State] = {}


def _remember(key: tuple[int, int], state: State) -> None:
    _REMEMBERED[key] = state
    if len(_REMEMBERED) > MOST_REMEMBERED:
        _REMEMBERED.pop(next(iter(_REMEMBERED)), None)


async def _drive(story: Story) -> None:
    try:
        puts = next(story)
        while True:
            puts = story.send(await live.run(puts))
    except StopIteration:
        return
    except RedisError as error:
        raise _unavailable(error) from error


def _drive_sync(story: Story) -> None:
    try:
        puts = next(story)
        while True:
            puts = story.send(live.run_sync(puts))
    except StopIteration:
        return
    except RedisError as error:
        raise _unavailable(error) from error


def _counted(outcomes: dict[int, Outcome], door: str) -> list[Outcome]:
    ordered = [outcomes[index] for index in sorted(outcomes)]
    for outcome in ordered:
        FIXES.labels(door, outcome.text).inc()
    return ordered


def _unavailable(error: RedisError) -> Unavailable:
    logger.warning(
        "REDIS_URL is not reachable: %s", error, extra={"action": "ingest_unavailable"}
    )
    return Unavailable("Redis is not reachable")


def _warn_database(error: Exception) -> None:
    logger.warning(
        "DATABASE_URL is not reachable: %s", error, extra={"action": "database_away"}
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000
