"""A fix: one validated reading, SI units in the names. Pure.

Before it: `tracking.protocols`, which turn a phone's own words into these
arguments. After it: `tracking.filters`.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_MS_FROM = 100_000_000_000  # below: seconds (until the year 5138), above: milliseconds
_LATEST_MS = 4_102_444_800_000  # 2100-01-01


class InvalidFix(Exception):
    """Cannot be a fix. `reason` is counted, `detail` tells the sender what to do."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Fix:
    """One reading. Degrees WGS-84, milliseconds since the epoch, SI units."""

    fixed_at_ms: int
    latitude: float
    longitude: float
    accuracy_m: float | None = None
    speed_mps: float | None = None
    course_deg: float | None = None
    altitude_m: float | None = None
    battery_pct: float | None = None


def build(fixed_at_ms: int, latitude: Any, longitude: Any, **optional: Any) -> Fix:
    """A fix from numbers of any JSON type; raises InvalidFix with its reason.

    `optional` are the other fields of Fix. Below zero means unknown there (many
    phones send -1), except for the altitude.
    """
    values = {name: _optional(name, value) for name, value in optional.items()}
    return Fix(
        fixed_at_ms,
        _coordinate("lat", latitude, 90),
        _coordinate("lon", longitude, 180),
        **values,
    )


def number(text: str) -> float:
    """A decimal number as phones write it in a query; raises ValueError."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is not a number")
    return float(text)


def parse_time(value: Any) -> int:
    """Epoch seconds, epoch milliseconds or ISO 8601 → milliseconds.

    Text without a zone is UTC. Raises InvalidFix("bad_time").
    """
    if isinstance(value, str):
        value = _time_from_text(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidFix("bad_time", "fixed_at must be seconds, milliseconds or ISO.")
    if not isfinite(value) or value <= 0:
        raise InvalidFix("bad_time", "fixed_at must be a time after 1970.")
    ms = round(value if value >= _MS_FROM else value * 1000)
    if ms > _LATEST_MS:
        raise InvalidFix("bad_time", "fixed_at is after the year 2100.")
    return ms


def _time_from_text(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    # A leap second is the one valid time that datetime refuses.
    leap = re.fullmatch(r"(.*\d\d:\d\d:)60(.*)", text)
    try:
        moment = datetime.fromisoformat(f"{leap[1]}59{leap[2]}" if leap else text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment + timedelta(seconds=1 if leap else 0)).timestamp() * 1000
    except (ValueError, OverflowError) as error:
        raise InvalidFix("bad_time", f"{text[:40]!r} is not a time.") from error


def _coordinate(name: str, value: Any, limit: int) -> float:
    checked = _finite(value)
    if checked is None or abs(checked) > limit:
        raise InvalidFix(
            "bad_coord", f"{name} must be a number from -{limit} to {limit}."
        )
    return checked


def _optional(name: str, value: Any) -> float | None:
    if value is None:
        return None
    checked = _finite(value)
    if checked is None:
        raise InvalidFix("bad_field", f"{name} must be a finite number or left out.")
    if name == "altitude_m":
        return checked
    if checked < 0 or (name == "battery_pct" and checked > 100):
        return None
    return checked % 360 if name == "course_deg" else checked


def _finite(value: Any) -> float | None:
    # isfinite comes first: NaN slips through every comparison of a range check.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None
