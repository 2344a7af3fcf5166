"""The JSON of one live position, built once and forwarded as it is. Pure.

`tracking.ingest` builds it, Redis carries it, every hub joins it into frames.
"""

from typing import Any

import orjson

from tracking.fixes import Fix


def fragment(device_id: int, fix: Fix, shown_ms: int, state: str) -> str:
    """An ITEM of the websocket protocol; `state` is live or stopped."""
    return _dump(
        {
            "id": str(device_id),
            "lat": round(fix.latitude, 6),
            "lon": round(fix.longitude, 6),
            "t": shown_ms,
            "acc": _rounded(fix.accuracy_m, 1),
            "spd": _rounded(fix.speed_mps, 1),
            "crs": _rounded(fix.course_deg, 0),
            "bat": _rounded(fix.battery_pct, 0),
            "st": state,
        }
    )


def with_state(item: str, state: str) -> str:
    """The same position as live or stopped; an empty text stays empty."""
    return _dump({**orjson.loads(item), "st": state}) if item else ""


def _rounded(value: float | None, digits: int) -> float | None:
    return value if value is None else round(value, digits)


def _dump(item: dict[str, Any]) -> str:
    return orjson.dumps(item).decode()
