"""Every device of a fleet with its name and state, for the list beside the map.

Before it: the database (names, last positions), Redis (who spoke last when) and the
hub's board. After it: roster messages, at most every 5 s and only what changed.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from django.conf import settings

from tracking import keys, live
from tracking.board import Board
from tracking.models import Device

IDLE_AFTER_MS = 30_000
STALE_AFTER_MS = 60_000
# A live device is told again when its last word is this much newer.
AGE_STEP_MS = 30_000


class Known(NamedTuple):
    """What the database says of a device; milliseconds and degrees."""

    name: str
    fleet: str
    kind: str
    state: str
    last_ms: int | None
    latitude: float | None
    longitude: float | None


class Entry(NamedTuple):
    tick: int
    key: tuple[Any, ...]
    fragment: str


@dataclass(slots=True)
class Heard:
    """A start, stop or loss that the database may not know yet."""

    state: str
    at_ms: int


class Roster:
    """One fleet's list. `entries` has an empty fragment for a device that is gone.

    `known` is believed until `known_until` on the event loop's clock.
    """

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.heard: dict[str, Heard] = {}
        self.entries: dict[str, Entry] = {}
        self.known_until = 0.0

    def doubt(self) -> None:
        """Devices may have changed unheard: the database is asked again."""
        self.heard.clear()
        self.known_until = 0.0

    def refresh(
        self, board: Board, last_words: dict[str, int], now_ms: int, tick: int
    ) -> None:
        """Recompute from the last word (ms) of each active device."""
        for device, known in self.known.items():
            item = self._item(device, known, board, last_words.get(device), now_ms)
            key = (*known[:3], item["st"], (item["t"] or 0) // AGE_STEP_MS)
            entry = self.entries.get(device)
            if entry is None or entry.key != key:
                text = orjson.dumps(item).decode()
                self.entries[device] = Entry(tick, key, text)
        for device in self.entries.keys() - self.known.keys():
            if self.entries[device].fragment:
                self.entries[device] = Entry(tick, (), "")

    def changed(
        self, since: int, only: AbstractSet[str] | None = None
    ) -> tuple[list[str], list[str]]:
        """(fragments, gone ids) after a tick, -1 for all; of some devices or of any."""
        new = [
            (device, entry)
            for device, entry in self.entries.items()
            if entry.tick > since and (only is None or device in only)
        ]
        items = [entry.fragment for _device, entry in new if entry.fragment]
        return items, [device for device, entry in new if not entry.fragment]

    def hear(self, device: str, event: str, at_ms: int) -> None:
        states = {"start": "live", "stop": "stopped", "lost": "lost"}
        self.heard[device] = Heard(states[event], at_ms)

    def _item(
        self, device: str, known: Known, board: Board, last_ms: int | None, now_ms: int
    ) -> dict[str, Any]:
        spot = board.spots.get(device)
        latitude, longitude = known.latitude, known.longitude
        if spot and spot.fragment:
            item = orjson.loads(spot.fragment)
            latitude, longitude = item["lat"], item["lon"]
        heard = self.heard.get(device)
        state, at_ms = known.state, known.last_ms
        if last_ms is not None:
            state, at_ms = by_age(now_ms - last_ms), last_ms
        elif heard is not None:
            state, at_ms = heard.state, max(heard.at_ms, at_ms or 0)
        return {
            "id": device,
            "name": known.name,
            "fleet": known.fleet,
            "kind": known.kind,
            "st": "lost" if state == "active" else state,
            "t": at_ms,
            "lat": latitude,
            "lon": longitude,
        }


def by_age(age_ms: int) -> str:
    if age_ms > STALE_AFTER_MS:
        return "stale"
    return "idle" if age_ms > IDLE_AFTER_MS else "live"


def load(fleet_id: int) -> dict[str, Known]:
    """Every device of a fleet from the database, by id as text."""
    devices = Device.objects.filter(fleet_id=fleet_id).select_related("fleet")
    return {
        str(device.pk): Known(
            device.name,
            device.fleet.name,
            device.kind,
            device.state,
            _milliseconds(device.last_received_at or device.last_fixed_at),
            device.last_latitude,
            device.last_longitude,
        )
        for device in devices.iterator(chunk_size=2000)
    }


async def last_words(fleet_id: int) -> dict[str, int]:
    """When each active device spoke last, from its deadline."""
    ttl_ms = settings.TRACKING_LIVE_TTL_S * 1000
    found: Any = await live.async_redis().zrange(
        keys.active(fleet_id), 0, -1, withscores=True
    )
    return {device: int(deadline) - ttl_ms for device, deadline in found}


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
