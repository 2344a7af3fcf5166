"""Drover's own JSON, by websocket and HTTP: text → fixes. Pure.

Before it: `tracking.consumers` and `tracking.views`. After it: `tracking.ingest`.
"""

from typing import Any

import orjson

from tracking.fixes import Fix, InvalidFix, build, parse_time

MOST_FIXES = 1000
_OPTIONAL = ("accuracy_m", "speed_mps", "course_deg", "altitude_m", "battery_pct")


def decode(text: str | bytes) -> dict[str, Any]:
    """One JSON object; raises InvalidFix("bad_json"). NaN and Infinity are no JSON."""
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidFix("bad_json", f"Send one JSON object: {error}.") from error
    if not isinstance(message, dict):
        raise InvalidFix("bad_json", "Send one JSON object.")
    return message


def fix(raw: Any) -> Fix:
    """`{"lat", "lon", "fixed_at", …}` → Fix; raises InvalidFix."""
    if not isinstance(raw, dict):
        raise InvalidFix("bad_json", "A fix must be a JSON object.")
    return build(
        parse_time(raw.get("fixed_at")),
        raw.get("lat"),
        raw.get("lon"),
        **{name: raw.get(name) for name in _OPTIONAL},
    )


def fixes(raw: Any) -> list[Fix | InvalidFix]:
    """A batch of at most 1,000; a bad item keeps its place as its own error."""
    if not isinstance(raw, list) or len(raw) > MOST_FIXES:
        raise InvalidFix("bad_batch", f"fixes must be a list of at most {MOST_FIXES}.")
    return [_fix_or_error(item) for item in raw]


def _fix_or_error(item: Any) -> Fix | InvalidFix:
    try:
        return fix(item)
    except InvalidFix as error:
        return error
