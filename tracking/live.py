"""The live position per device in Redis: the only writer of live keys, all the Lua.

Before it: `tracking.ingest`, which has judged a fix. After it: `tracking.hub`, which
hears the publications, and `tracking.history`, which empties the buffer.

Every script runs on Redis's own clock. Publications are text: `put <device> <cell>
<previous sequence> <sequence> <fixed_at ms> <JSON>`, `gone <device> <cell> <previous>
<sequence>`, `event <device> <start|stop|lost> <ms>`.
"""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings
from redis.exceptions import NoScriptError

from project.redis import async_client, sync_client
from tracking import keys
from tracking.state import State, from_fields, to_fields

STATE_TTL_MS = 7 * 86_400_000
EXPIRE_BATCH = 500

_PUBLISH = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end
local function step(seq, cell)
  local current = redis.call('HINCRBY', seq, cell, 1)
  return cell .. ' ' .. text(current - 1) .. ' ' .. text(current)
end
"""

# KEYS state live active ended sequence buffer old-cell new-cell
# ARGV 1 expected version, 2 mode, 3 device, 4 ttl ms, 5 buffer limit, 6 record,
#      7 fixed_at ms, 8 JSON, 9 old cell, 10 new cell, 11 old channel, 12 new channel,
#      13 state ttl ms, 14… state fields
# modes: show (moves the marker), touch (a sign of life), note (history only), stop
_PUT = (
    _PUBLISH
    + """
if (redis.call('HGET', KEYS[1], 'version') or '') ~= ARGV[1] then
  return {'conflict', redis.call('HGETALL', KEYS[1])}
end
local device, mode, ttl = ARGV[3], ARGV[2], tonumber(ARGV[4])
local full = 0
if ARGV[6] ~= '' then
  -- A stop is the end of a journey: it is buffered whatever the limit says.
  if mode == 'stop' or redis.call('XLEN', KEYS[6]) < tonumber(ARGV[5]) then
    redis.call('XADD', KEYS[6], '*', 'r', ARGV[6])
  else
    full = 1
  end
end
local was_stopped = redis.call('HGET', KEYS[1], 'stopped') == '1'
redis.call('HSET', KEYS[1], unpack(ARGV, 14))
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'buffered', 1 - full) end
redis.call('PEXPIRE', KEYS[1], ARGV[13])
local deadline = text(now + ttl)
local function show()
  redis.call('SET', KEYS[2], ARGV[10] .. ' ' .. ARGV[7] .. ' ' .. ARGV[8], 'PX', ttl)
  if ARGV[9] ~= ARGV[10] and redis.call('SREM', KEYS[7], device) == 1 then
    redis.call('PUBLISH', ARGV[11], 'gone ' .. device .. ' ' .. step(KEYS[5], ARGV[9]))
  end
  redis.call('SADD', KEYS[8], device)
  redis.call('PUBLISH', ARGV[12], 'put ' .. device .. ' ' .. step(KEYS[5], ARGV[10])
    .. ' ' .. ARGV[7] .. ' ' .. ARGV[8])
end
if mode == 'note' then
  redis.call('ZADD', KEYS[3], 'XX', deadline, device)
  redis.call('PEXPIRE', KEYS[2], ttl)
  return {'ok', full}
end
if mode == 'stop' then
  local was_active = redis.call('ZREM', KEYS[3], device) == 1
  if ARGV[8] ~= '' then
    redis.call('ZADD', KEYS[4], deadline, device)
    show()
  end
  if was_active or not was_stopped then
    redis.call('PUBLISH', ARGV[12], 'event ' .. device .. ' stop ' .. text(now))
  end
  return {'ok', full}
end
local entered = redis.call('ZADD', KEYS[3], deadline, device)
redis.call('ZREM', KEYS[4], device)
if mode == 'show' then
  show()
elseif redis.call('PEXPIRE', KEYS[2], ttl) == 0 and ARGV[8] ~= '' then
  show()
end
if entered == 1 then
  redis.call('PUBLISH', ARGV[12], 'event ' .. device .. ' start ' .. text(now))
end
return {'ok', full}
"""
)

# KEYS active ended sequence; ARGV state prefix, live prefix, cell prefix, limit,
#      channel of a device without a place, 6… devices to withdraw instead of the due
# The keys behind the prefixes carry the same hash tag as KEYS, so one node has all.
_EXPIRE = (
    _PUBLISH
    + """
local lost, named = {}, {unpack(ARGV, 6)}
for index, set in ipairs({KEYS[1], KEYS[2]}) do
  local due = named
  if #named == 0 then
    due = redis.call('ZRANGEBYSCORE', set, '-inf', text(now), 'LIMIT', 0, ARGV[4])
  end
  for _, device in ipairs(due) do
    redis.call('ZREM', set, device)
    redis.call('DEL', ARGV[2] .. device)
    local at = redis.call('HMGET', ARGV[1] .. device, 'cell', 'channel')
    local channel = at[2] or ARGV[5]
    if at[1] and redis.call('SREM', ARGV[3] .. at[1], device) == 1 then
      redis.call('PUBLISH', channel, 'gone ' .. device .. ' ' .. step(KEYS[3], at[1]))
    end
    if index == 1 and #named == 0 then
      redis.call('PUBLISH', channel, 'event ' .. device .. ' lost ' .. text(now))
      lost[#lost + 1] = device
    end
  end
end
return lost
"""
)


_PUT_SHA = sha1(_PUT.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Put:
    """One call of the script: `state` is what holds once it has been applied."""

    fleet_id: int
    device_id: int
    expected: str
    mode: str
    state: State
    old_cell: str
    record: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """`conflict`: the state that another connection left, nothing was written.
    `is_full`: applied, but the history buffer had no room for the record."""

    conflict: State | None = None
    is_full: bool = False


async def run(puts: Sequence[Put]) -> list[Applied]:
    """Apply in order, in one round trip. Raises `redis.RedisError`."""
    client = async_redis()
    for _ in range(2):
        pipe = _filled(client.pipeline(transaction=False), puts)
        replies = await pipe.execute(raise_on_error=False)
        if not any(isinstance(reply, NoScriptError) for reply in replies):
            break
        await client.script_load(_PUT)
    return [_applied(reply) for reply in replies]


def run_sync(puts: Sequence[Put]) -> list[Applied]:
    """The same for a Celery worker."""
    client = sync_redis()
    for _ in range(2):
        pipe = _filled(client.pipeline(transaction=False), puts)
        replies = pipe.execute(raise_on_error=False)
        if not any(isinstance(reply, NoScriptError) for reply in replies):
            break
        client.script_load(_PUT)
    return [_applied(reply) for reply in replies]


def expire(fleet_id: int) -> list[int]:
    """Announce each device whose deadline has passed as lost, once; their ids.

    Any number of processes may run it at the same time.
    """
    return [int(device_id) for device_id in _expire_or_withdraw(fleet_id)]


def withdraw(fleet_id: int, device_ids: Sequence[str]) -> None:
    """Take devices off the map of a fleet that they have left; no event."""
    for start in range(0, len(device_ids), EXPIRE_BATCH):
        _expire_or_withdraw(fleet_id, *device_ids[start : start + EXPIRE_BATCH])


def _expire_or_withdraw(fleet_id: int, *device_ids: str) -> Any:
    return sync_redis().eval(
        _EXPIRE,
        3,
        keys.active(fleet_id),
        keys.ended(fleet_id),
        keys.sequence(fleet_id),
        keys.state_prefix(fleet_id),
        keys.live_prefix(fleet_id),
        keys.cell_prefix(fleet_id),
        EXPIRE_BATCH,
        keys.channel(fleet_id, ""),
        *device_ids,
    )


def glimpses(devices: Sequence[tuple[int, int]]) -> list[tuple[int, str] | None]:
    """Each (fleet, device) as last word (ms) and JSON of its live position; None when
    it is not active. One round trip."""
    pipe = sync_redis().pipeline(transaction=False)
    for fleet_id, device_id in devices:
        pipe.zscore(keys.active(fleet_id), str(device_id))
        pipe.get(keys.live(fleet_id, device_id))
    found = pipe.execute()
    ttl_ms = settings.TRACKING_LIVE_TTL_S * 1000
    return [
        None if at is None else (int(at) - ttl_ms, (value or "  ").split(" ", 2)[2])
        for at, value in zip(found[::2], found[1::2], strict=True)
    ]


def newest_buffered(fleet_id: int) -> str:
    """The id of the last buffered record, or an empty text."""
    found: Any = sync_redis().xrevrange(keys.buffer(fleet_id), count=1)
    return str(found[0][0]) if found else ""


def buffered(fleet_id: int, last: str, count: int) -> list[tuple[str, str]]:
    """The oldest (id, record) up to `last`."""
    found: Any = sync_redis().xrange(keys.buffer(fleet_id), max=last, count=count)
    return [(entry_id, fields["r"]) for entry_id, fields in found]


def drop_buffered(fleet_id: int, last: str) -> None:
    """Forget every record up to this one; what another process wrote since stays."""
    milliseconds, _, number = last.partition("-")
    following = f"{milliseconds}-{int(number) + 1}"
    sync_redis().xtrim(keys.buffer(fleet_id), minid=following, approximate=False)


def async_redis() -> redis.asyncio.Redis:
    """One client per event loop; a client must not cross loops."""
    loop = get_running_loop()
    if loop not in _CLIENTS:
        _CLIENTS[loop] = async_client("tracking", decode_responses=True)
    return _CLIENTS[loop]


@cache
def sync_redis() -> redis.Redis:
    return sync_client("tracking", decode_responses=True)


_CLIENTS: WeakKeyDictionary[AbstractEventLoop, redis.asyncio.Redis] = (
    WeakKeyDictionary()
)


def _filled(pipe: Any, puts: Sequence[Put]) -> Any:
    for put in puts:
        pipe.evalsha(_PUT_SHA, 8, *_arguments(put))
    return pipe


def _arguments(put: Put) -> list[Any]:
    fleet, device, state = put.fleet_id, put.device_id, put.state
    new_channel = keys.channel(fleet, state.cell)
    return [
        *(keys.state(fleet, device), keys.live(fleet, device)),
        *(keys.active(fleet), keys.ended(fleet)),
        *(keys.sequence(fleet), keys.buffer(fleet)),
        *(keys.cell(fleet, put.old_cell), keys.cell(fleet, state.cell)),
        *(put.expected, put.mode, device),
        *(settings.TRACKING_LIVE_TTL_S * 1000, settings.TRACKING_BUFFER_LIMIT),
        *(put.record, state.newest_ms, state.fragment, put.old_cell, state.cell),
        *(keys.channel(fleet, put.old_cell), new_channel),
        *(STATE_TTL_MS, *to_fields(state), "channel", new_channel),
    ]


def _applied(reply: Any) -> Applied:
    if isinstance(reply, Exception):
        raise reply
    if reply[0] != "conflict":
        return Applied(is_full=reply[1] == 1)
    # RESP2 gives the hash inside a script's answer as a flat list, RESP3 as well.
    words = iter(reply[1])
    return Applied(conflict=from_fields(dict(zip(words, words, strict=True))))
