"""Cells cover what a viewport shows, and a fleet's routes stay on the map."""

import itertools
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tracking.cells import CELL_LEVEL, MOST_CELLS, at_level, cell_of, covering
from tracking.filters import distance_m
from tracking.routes import CITIES, journey, shortest
from tracking.simulation import Reporter, Vehicle

latitudes, longitudes = st.floats(-85, 85), st.floats(-180, 180)


def test_both_sides_of_the_180th_meridian_are_one():
    assert cell_of(10, 180) == cell_of(10, -180)


@given(latitudes, longitudes)
def test_a_coarser_cell_holds_the_finer_one(lat, lon):
    for level in range(CELL_LEVEL):
        assert at_level(cell_of(lat, lon), level) == cell_of(lat, lon, level)


@given(latitudes, longitudes, st.floats(0, 1), st.floats(0, 1), st.data())
def test_a_viewport_is_covered_by_few_cells(south, west, height, width, data):
    north = min(85.0, south + height * 60)
    east = (west + width * 200 + 180) % 360 - 180
    level, cells = covering((west, south, east, north))
    lat = data.draw(st.floats(south, north))
    lon = west + data.draw(st.floats(0, (east - west) % 360))
    assert cell_of(lat, lon, level) in cells
    assert len(cells) <= MOST_CELLS


def test_every_city_reaches_every_other():
    first = next(iter(CITIES))
    assert all(shortest(first, city)[-1] == city for city in CITIES)


def test_a_journey_bends_but_does_not_jump():
    random = Random(7)  # noqa: S311
    for city in list(CITIES)[::9]:
        _target, points = journey(random, city)
        legs = [distance_m(*a, *b) for a, b in itertools.pairwise(points)]
        assert max(legs) < 9_000


def test_a_vehicle_arrives_rests_and_departs():
    vehicle = Vehicle(Random(1), speedup=1000)  # noqa: S311
    seen = {vehicle.advance(5) for _ in range(400)}
    assert seen == {"driving", "arrived", "resting", "departed"}


def test_a_report_is_due_after_ten_metres_or_a_minute():
    reporter = Reporter()
    assert reporter.is_due((47.0, 8.0), 0)
    assert not reporter.is_due((47.00005, 8.0), 1)
    assert reporter.is_due((47.0002, 8.0), 2)
    assert not reporter.is_due((47.0002, 8.0), 61)
    assert reporter.is_due((47.0002, 8.0), 63)
