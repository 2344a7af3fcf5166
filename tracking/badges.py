"""How states and ages of devices look in the admin: text with a sign, escaped.

Before it: rows of `models`, and Redis for the live ones. After it: `admin`.
"""

import logging
import time
from datetime import UTC, datetime, timedelta

import orjson
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from redis import RedisError

from tracking import live
from tracking.models import Device
from tracking.roster import by_age

logger = logging.getLogger(__name__)

# State → (sign, tone). The tone is a class of tracking_admin/admin.css.
_LOOKS = {
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
    return format_html('<span class="state state-{}">{} {}</span>', tone, sign, name)


def last_seen(device: Device) -> SafeString | str:
    word = _last_word(device)
    moment = device.last_received_at
    if word is not None:
        moment = datetime.fromtimestamp(word / 1000, tz=UTC)
    if moment is None:
        return "never"
    age = timezone.now() - moment
    short = f"{max(0, round(age.total_seconds()))} s ago"
    if age >= timedelta(minutes=1):
        short = f"{timesince(moment, depth=1)} ago"
    exact = moment.isoformat(timespec="milliseconds")
    return format_html('<span title="{}">{}</span>', exact, short)


def _last_word(device: Device) -> int | None:
    if "last_word_ms" not in device.__dict__ and device.pk:
        with_live([device])
    word: int | None = device.__dict__.get("last_word_ms")
    return word
