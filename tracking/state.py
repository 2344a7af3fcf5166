"""What the filters know of a device, and how it lies in a Redis hash. Pure.

`tracking.filters` reads it, `tracking.ingest` makes the next one, `tracking.live`
stores it under a version.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """The newest fix in order, and the last live one.

    `version` is opaque; `seen` names the content judged last; `fragment` is the JSON
    that watchers got; `buffered` is false when the history buffer had no room.
    """

    version: str = ""
    newest_ms: int = 0
    seen: str = ""
    latitude: float | None = None
    longitude: float | None = None
    accuracy_m: float | None = None
    cell: str = ""
    fragment: str = ""
    stopped: bool = False
    buffered: bool = True


def to_fields(state: State) -> list[str | int]:
    """Names and values in turn, as HSET takes them; `buffered` is the script's."""
    place = f"{state.latitude!r} {state.longitude!r} {state.accuracy_m!r}"
    return [
        *("version", state.version, "newest_ms", state.newest_ms, "seen", state.seen),
        *("place", place, "cell", state.cell, "fragment", state.fragment),
        *("stopped", int(state.stopped)),
    ]


def from_fields(fields: dict[str, str]) -> State:
    """The state of a hash; an empty one is a device that never sent anything."""
    if not fields:
        return State()
    place = [
        None if word == "None" else float(word) for word in fields["place"].split()
    ]
    return State(
        version=fields["version"],
        newest_ms=int(fields["newest_ms"]),
        seen=fields["seen"],
        latitude=place[0],
        longitude=place[1],
        accuracy_m=place[2],
        cell=fields["cell"],
        fragment=fields["fragment"],
        stopped=fields["stopped"] == "1",
        buffered=fields.get("buffered") != "0",
    )
