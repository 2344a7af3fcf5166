"""Geographic cells: Web-Mercator tiles, and the ones a viewport needs. Pure.

Before it: a position or a watcher's viewport. After it: live (membership of the
finest cell) and the hub's board (the same cell at coarser levels by shifting).
"""

from math import asinh, floor, pi, radians, tan

Cell = tuple[int, int]

CELL_LEVEL = 10
# A view uses the finest level at which it needs at most MOST_CELLS of them.
LEVELS = (0, 3, 5, 8, CELL_LEVEL)
MOST_CELLS = 64
_MERCATOR_LIMIT_DEG = 85.0511


def cell_of(latitude: float, longitude: float, level: int = CELL_LEVEL) -> Cell:
    """The tile (x, y) of a place; -180 and 180 are the same one."""
    count = 1 << level
    x = floor((longitude + 180) / 360 * count) % count
    clamped = max(-_MERCATOR_LIMIT_DEG, min(_MERCATOR_LIMIT_DEG, latitude))
    y = floor((1 - asinh(tan(radians(clamped))) / pi) / 2 * count)
    return x, max(0, min(count - 1, y))


def at_level(cell: Cell, level: int) -> Cell:
    """The coarser cell that holds this one of CELL_LEVEL."""
    shift = CELL_LEVEL - level
    return cell[0] >> shift, cell[1] >> shift


def covering(
    viewport: tuple[float, float, float, float] | None,
) -> tuple[int, frozenset[Cell]]:
    """(level, cells) that cover west, south, east, north and one ring around it.

    West greater than east crosses the 180th meridian; None is the whole world.
    """
    if viewport is None:
        return 0, frozenset({(0, 0)})
    for level in reversed(LEVELS):
        columns, rows = _columns(viewport, level), _rows(viewport, level)
        if len(columns) * len(rows) <= MOST_CELLS:
            return level, frozenset((x, y) for x in columns for y in rows)
    return 0, frozenset({(0, 0)})


def _columns(viewport: tuple[float, float, float, float], level: int) -> list[int]:
    west, south, east, _north = viewport
    count = 1 << level
    first = cell_of(south, west, level)[0] - 1
    width = (east - west) % 360 if east - west < 360 else 360
    steps = floor(width / 360 * count) + 4
    return sorted({x % count for x in range(first, first + min(steps, count))})


def _rows(viewport: tuple[float, float, float, float], level: int) -> range:
    west, south, _east, north = viewport
    top = cell_of(north, west, level)[1] - 1
    bottom = cell_of(south, west, level)[1] + 1
    return range(max(0, top), min((1 << level) - 1, bottom) + 1)
