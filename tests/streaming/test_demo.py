"""The demo's events are valid, but for the few that are broken on purpose."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest

from streaming import demo
from streaming.handlers import HANDLERS
from streaming.schemas import InvalidMessage, decode

NOW = datetime(2026, 12, 1, tzinfo=UTC)
PRODUCT = demo.Product("42", Decimal("10.00"), "EUR", 5)


def test_about_one_in_two_hundred_is_broken_in_several_ways():
    random = Random(1)  # noqa: S311
    reasons = []
    for _ in range(20_000):
        _, _, value = demo.product_change(PRODUCT, NOW, random)
        try:
            decode(value, HANDLERS)
        except InvalidMessage as error:
            reasons.append(error.reason)
    # A fifth of the broken ones names an unknown owner: valid until it is handled.
    assert 50 < len(reasons) < 120
    assert {"bad_json", "missing_field", "bad_value", "unknown_schema"} == set(reasons)


def test_an_event_of_one_seed_is_always_the_same():
    first, second = (_fix_of_seed(3) for _ in "ab")
    assert first == second


@pytest.mark.parametrize("name", demo.FERRIES)
def test_a_ferry_stays_on_its_line_and_keeps_its_speed(name):
    (lat_a, lon_a), (lat_b, lon_b) = demo.FERRIES[name]
    for minute in range(0, 3000, 37):
        at_s = 1_764_600_000 + minute * 60
        lat, lon, course = demo.position(name, at_s)
        assert min(lat_a, lat_b) - 1e-9 <= lat <= max(lat_a, lat_b) + 1e-9
        assert min(lon_a, lon_b) - 1e-9 <= lon <= max(lon_a, lon_b) + 1e-9
        assert 0 <= course < 360
        next_lat, next_lon, _ = demo.position(name, at_s + 1)
        north = math.radians(next_lat - lat) * demo.EARTH_M
        east = math.radians(next_lon - lon) * demo.EARTH_M * math.cos(math.radians(lat))
        assert math.hypot(north, east) <= demo.SPEED_MPS * 1.05


def _fix_of_seed(seed: int) -> demo.Event:
    return demo.fix(1, "Ferry Ancona-Split", NOW, Random(seed))  # noqa: S311
