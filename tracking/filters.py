"""What the live map does with a fix, and why. Flags, never drops. Pure.

Before it: `tracking.fixes`. After it: `tracking.ingest`, which applies a outcome only
while the device's state still has the version that was judged.
"""

from dataclasses import dataclass, replace
from math import asin, cos, radians, sin, sqrt

from tracking.fixes import Fix
from tracking.state import State

EARTH_RADIUS_M = 6_371_008.8
MIN_DISTANCE_M = 10.0
CLOCK_TOLERANCE_MS = 60_000
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """`result` accepted | filtered | duplicate | late; `shown`: moves the marker."""

    result: str
    reason: str = ""
    shown: bool = False
    stored_ms: int = 0
    shown_ms: int = 0

    @property
    def text(self) -> str:
        """What the sender is told, such as `filtered:not_moved`."""
        return f"filtered:{self.reason}" if self.result == "filtered" else self.result


def judge(fix: Fix, state: State, now_ms: int) -> Outcome:
    """The decision for one fix after everything that `state` has seen."""
    at = fix.fixed_at_ms
    if state.seen == content(fix):
        return Outcome("duplicate", stored_ms=at)
    if reason := _never_live(fix, now_ms):
        return Outcome(
            "filtered", reason, stored_ms=now_ms if reason == "future" else at
        )
    clock = "clock" if at > now_ms + CLOCK_TOLERANCE_MS else ""
    # Of a clock that is ahead only the order counts: of a batch its last one is shown.
    shown_ms = max(now_ms, state.newest_ms + 1) if clock else at
    if shown_ms <= state.newest_ms:
        return Outcome("late", "late", stored_ms=at)
    if not moved(fix, state):
        return Outcome("filtered", "not_moved", stored_ms=at, shown_ms=shown_ms)
    return Outcome("accepted", clock, shown=True, stored_ms=at, shown_ms=shown_ms)


def _never_live(fix: Fix, now_ms: int) -> str:
    if fix.latitude == 0 == fix.longitude:
        return "zero"
    if fix.fixed_at_ms > now_ms + DAY_MS:
        return "future"
    return "old" if fix.fixed_at_ms < now_ms - DAY_MS else ""


def after(state: State, fix: Fix, outcome: Outcome, version: str) -> State:
    """The state once the outcome has been applied, but for cell and fragment."""
    if outcome.result == "duplicate":
        return replace(state, version=version)
    seen = replace(state, version=version, seen=content(fix))
    if not outcome.shown_ms:
        return seen
    if not outcome.shown:
        return replace(seen, newest_ms=outcome.shown_ms)
    return replace(
        seen,
        newest_ms=outcome.shown_ms,
        latitude=fix.latitude,
        longitude=fix.longitude,
        accuracy_m=fix.accuracy_m,
        stopped=False,
    )


def content(fix: Fix) -> str:
    """Names a fix by what it says; equal for a fix that is sent again."""
    return f"{fix.fixed_at_ms}:{fix.latitude!r}:{fix.longitude!r}"


def moved(fix: Fix, state: State) -> bool:
    """More than 10 m from the last live fix, or than both radii where one is larger."""
    if state.latitude is None or state.longitude is None:
        return True
    radii = (fix.accuracy_m or 0.0, state.accuracy_m or 0.0)
    limit = sum(radii) if max(radii) > MIN_DISTANCE_M else MIN_DISTANCE_M
    return (
        distance_m(state.latitude, state.longitude, fix.latitude, fix.longitude) > limit
    )


def distance_m(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Haversine on the mean sphere; within 0.5 % of the ellipsoid."""
    half_lat = radians(lat2 - lat1) / 2
    half_lon = radians(lon2 - lon1) / 2
    chord = (
        sin(half_lat) ** 2
        + cos(radians(lat1)) * cos(radians(lat2)) * sin(half_lon) ** 2
    )
    return 2 * EARTH_RADIUS_M * asin(sqrt(min(1.0, chord)))
