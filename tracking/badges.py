"""How states and ages of devices look in the admin: text with a sign, escaped.

Before it: rows of `models`, and Redis for the live ones. After it: `admin`.
"""

import logging
import time
from datetime import UTC, datetime

import orjson
from django.utils.safestring import SafeString
from redis import RedisError

from project import badges
from project.badges import Looks
from tracking import live
from tracking.models import Device
from tracking.roster import by_age

logger = logging.getLogger(__name__)

_LOOKS: Looks = {
    "live": ("●", "good"),
    "idle": ("◐", "good"),
    "stale": ("○", "warn"),
    "active": ("?", "warn"),
    "lost": ("✗", "bad"),
    "stopped": ("■", "quiet"),
    "never": ("…", "quiet"),
}


def with_live(devices: list[Device]) -> list[Device]:
    """Each row with what Redis knows of it now; without Redis, as it was saved last."""
    try:
        found = live.glimpses([(device.fleet_id, device.pk) for device in devices])
    except RedisError as error:
        logger.warning("states come from the database: %s", error)
        return devices
    for device, glimpse in zip(devices, found, strict=True):
        device.__dict__["last_word_ms"] = glimpse and glimpse[0]
        if glimpse and glimpse[1]:
            item = orjson.loads(glimpse[1])
            device.last_latitude, device.last_longitude = item["lat"], item["lon"]
            if item["bat"] is not None:
                device.last_battery_pct = item["bat"]
    return devices


def state(device: Device) -> SafeString:
    word = _last_word(device)
    name = device.state if word is None else by_age(time.time_ns() // 1_000_000 - word)
    sign, tone = _LOOKS[name]
    return badges.badge(tone, sign, name)


def last_seen(device: Device) -> SafeString | str:
    word = _last_word(device)
    moment = device.last_received_at
    if word is not None:
        moment = datetime.fromtimestamp(word / 1000, tz=UTC)
    return badges.moment(moment, absent="never")


def _last_word(device: Device) -> int | None:
    if "last_word_ms" not in device.__dict__ and device.pk:
        with_live([device])
    word: int | None = device.__dict__.get("last_word_ms")
    return word
