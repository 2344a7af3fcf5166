"""The OsmAnd protocol of Traccar Client and OsmAnd: query or form → Fix. Pure.

Before it: `tracking.views`. After it: `tracking.ingest`. Units are converted here and
nowhere else: speed comes in knots.
"""

import time
from collections.abc import Mapping

from tracking.fixes import Fix, InvalidFix, build, number, parse_time

KNOT_MPS = 0.514444


def fix(parameters: Mapping[str, str]) -> Fix | None:
    """None for a heartbeat (no coordinates at all); raises InvalidFix.

    A detail that cannot be read is left out: it must not cost the position.
    """
    latitude, longitude = _place(parameters)
    if latitude is None and longitude is None:
        return None
    speed_knots = _detail(parameters, "speed")
    return build(
        _fixed_at_ms(parameters),
        _coordinate(latitude),
        _coordinate(longitude),
        accuracy_m=_detail(parameters, "accuracy"),
        speed_mps=None if speed_knots is None else speed_knots * KNOT_MPS,
        course_deg=_detail(parameters, "bearing", "heading"),
        altitude_m=_detail(parameters, "altitude"),
        battery_pct=_detail(parameters, "batt"),
    )


def _place(parameters: Mapping[str, str]) -> tuple[str | None, str | None]:
    if "location" in parameters:
        latitude, _, longitude = parameters["location"].partition(",")
        return latitude, longitude
    return parameters.get("lat"), parameters.get("lon")


def _coordinate(text: str | None) -> float | None:
    try:
        return None if text is None else number(text)
    except ValueError as error:
        raise InvalidFix("bad_coord", str(error)) from error


def _fixed_at_ms(parameters: Mapping[str, str]) -> int:
    if not parameters.get("timestamp"):
        return time.time_ns() // 1_000_000
    return parse_time(parameters["timestamp"])


def _detail(parameters: Mapping[str, str], *names: str) -> float | None:
    for name in names:
        try:
            value = number(parameters[name])
        except (KeyError, ValueError):
            continue
        return value if abs(value) < 1e9 else None
    return None
