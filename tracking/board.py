"""What a hub knows of one fleet: the newest fragment per device, in order of change.

Before it: publications and snapshots read by `tracking.hub`. After it: frames, joined
from the fragments that changed since a tick. No input or output in here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tracking.cells import LEVELS, Cell, at_level

# Marks of devices that left a cell; none of a watcher is older (it would be closed).
TOMBSTONES_KEPT_TICKS = 400


class Spot(NamedTuple):
    """A device on the board: since which tick, where, at which fix time, its JSON.

    An empty fragment is a device that has left the live view.
    """

    tick: int
    cell: Cell
    fixed_at_ms: int
    fragment: str


class Mark(NamedTuple):
    """A device in one cell of one level; an empty fragment means that it has left."""

    tick: int
    fragment: str


@dataclass(slots=True)
class Changes:
    """Fragments to show and devices that are no longer to be seen."""

    items: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


class Board:
    """Per cell of each level a dict by recency; a watcher is only "since which tick"."""

    def __init__(self) -> None:
        self.spots: dict[str, Spot] = {}
        self.sequences: dict[str, int] = {}
        self._levels: dict[int, dict[Cell, dict[str, Mark]]] = {n: {} for n in LEVELS}

    def put(
        self, device: str, cell: Cell, fixed_at_ms: int, fragment: str, tick: int
    ) -> None:
        """Newer or equal fix times win; an older one is ignored."""
        old = self.spots.get(device)
        if not (old and old.fragment and old.fixed_at_ms > fixed_at_ms):
            self._set(device, Spot(tick, cell, fixed_at_ms, fragment))

    def _set(self, device: str, spot: Spot) -> None:
        old = self.spots.pop(device, None)
        self.spots[device] = spot
        tick, cell, _fixed_at_ms, fragment = spot
        for level, cells in self._levels.items():
            here = at_level(cell, level)
            if old and at_level(old.cell, level) != here:
                _move_to_end(cells, at_level(old.cell, level), device, Mark(tick, ""))
            _move_to_end(cells, here, device, Mark(tick, fragment))

    def remove(self, device: str, tick: int) -> None:
        old = self.spots.pop(device, None)
        if old is None or not old.fragment:
            return
        self.spots[device] = old._replace(tick=tick, fragment="")
        for level, cells in self._levels.items():
            _move_to_end(cells, at_level(old.cell, level), device, Mark(tick, ""))

    def replace(self, devices: dict[str, tuple[Cell, int, str]], tick: int) -> None:
        """Take over a snapshot: what differs changes now, what is missing goes.

        A fix older than ours counts as well: Redis may have lost its newest ones.
        """
        for device in self.shown():
            if device not in devices:
                self.remove(device, tick)
        for device, (cell, fixed_at_ms, fragment) in devices.items():
            spot = self.spots.get(device)
            if spot is None or spot.fragment != fragment or spot.cell != cell:
                self._set(device, Spot(tick, cell, fixed_at_ms, fragment))

    def changed(self, level: int, cell: Cell, since: int) -> Changes:
        """Walks back from the newest change, so it costs what changed."""
        changes = Changes()
        for device, mark in reversed(self._levels[level].get(cell, {}).items()):
            if mark.tick <= since:
                break
            if mark.fragment:
                changes.items.append(mark.fragment)
            else:
                changes.gone.append(device)
        return changes

    def changed_devices(
        self, devices: Iterable[str], level: int, cells: frozenset[Cell], since: int
    ) -> Changes:
        """The same for single devices that someone may see."""
        changes = Changes()
        for device in devices:
            spot = self.spots.get(device)
            if spot is None or spot.tick <= since:
                continue
            if self.is_in(device, level, cells):
                changes.items.append(spot.fragment)
            elif self._was_in(device, level, cells, since):
                changes.gone.append(device)
        return changes

    def _was_in(
        self, device: str, level: int, cells: frozenset[Cell], since: int
    ) -> bool:
        """Whether it has left one of the cells; else a watcher cannot know it there."""
        marks = (self._levels[level].get(cell, {}).get(device) for cell in cells)
        return any(mark is not None and mark.tick > since for mark in marks)

    def is_in(self, device: str, level: int, cells: frozenset[Cell]) -> bool:
        """Whether a live device is in one of the cells."""
        spot = self.spots.get(device)
        if spot is None or not spot.fragment:
            return False
        return at_level(spot.cell, level) in cells

    def shown(self) -> list[str]:
        """The devices in the live view."""
        return [device for device, spot in self.spots.items() if spot.fragment]

    def prune(self, tick: int) -> None:
        """Forget who left long ago; bounded by the devices seen in the meantime."""
        before = tick - TOMBSTONES_KEPT_TICKS
        _drop(self.spots, before)
        for cells in self._levels.values():
            for cell in list(cells):
                _drop(cells[cell], before)
                if not cells[cell]:
                    del cells[cell]


def _move_to_end(
    cells: dict[Cell, dict[str, Mark]], cell: Cell, device: str, mark: Mark
) -> None:
    marks = cells.setdefault(cell, {})
    marks.pop(device, None)
    marks[device] = mark


def _drop(marks: dict[str, Spot] | dict[str, Mark], before: int) -> None:
    dead = [d for d, mark in marks.items() if not mark.fragment and mark.tick < before]
    for device in dead:
        del marks[device]
