"""What the live map does with a fix: a table of decisions, and the real traces."""

import csv
from dataclasses import replace
from itertools import groupby
from random import Random
from xml.etree import ElementTree as ET

import pytest
from geographiclib.geodesic import Geodesic
from hypothesis import given
from hypothesis import strategies as st

from tests.sample_data import sample
from tests.tracking.factories import STEP_DEG
from tracking.filters import after, distance_m, judge, moved
from tracking.fixes import Fix
from tracking.state import State, from_fields, to_fields

NOW = 1_764_590_400_000
HERE = Fix(NOW - 30_000, 47.0, 8.0)


def state_after(*fixes: Fix) -> State:
    state = State()
    for fix in fixes:
        state = after(state, fix, judge(fix, state, NOW), "v")
    return state


def at(seconds: float, steps: float = 0, **over) -> Fix:
    place = {"latitude": 47.0 + steps * STEP_DEG, "longitude": 8.0}
    return Fix(**{"fixed_at_ms": NOW + int(seconds * 1000)} | place | over)


@pytest.mark.parametrize(
    ("fix", "expected"),
    [
        pytest.param(at(-20, 1), "accepted", id="moved eleven metres"),
        pytest.param(at(-20, 0.8), "filtered:not_moved", id="moved nine metres"),
        pytest.param(HERE, "duplicate", id="the same again"),
        pytest.param(at(-31, 5), "late", id="older"),
        pytest.param(at(-30, 5), "late", id="same time, elsewhere"),
        pytest.param(at(0, latitude=0, longitude=0), "filtered:zero", id="null island"),
        pytest.param(at(59, 5), "accepted", id="clock a little ahead"),
        pytest.param(at(600, 5), "accepted", id="clock ten minutes ahead"),
        pytest.param(at(2 * 86_400, 5), "filtered:future", id="two days ahead"),
        pytest.param(at(-2 * 86_400, 5), "filtered:old", id="two days old"),
        pytest.param(at(-20, 3, accuracy_m=50.0), "filtered:not_moved", id="noise"),
        pytest.param(at(-20, 6, accuracy_m=50.0), "accepted", id="more than noise"),
    ],
)
def test_a_fix_after_one_at_the_same_place(fix, expected):
    assert judge(fix, state_after(HERE), NOW).text == expected


def test_a_clock_ahead_is_shown_at_its_arrival_and_flagged():
    outcome = judge(at(600), State(), NOW)
    assert (outcome.shown_ms, outcome.stored_ms) == (NOW, NOW + 600_000)
    assert outcome.reason == "clock"


def test_a_day_ahead_is_kept_at_its_arrival():
    assert judge(at(2 * 86_400), State(), NOW).stored_ms == NOW


def test_both_radii_count_where_either_exceeds_ten_metres():
    state = state_after(replace(HERE, accuracy_m=12.0))
    assert not moved(at(0, 1, accuracy_m=4.0), state)
    assert moved(at(0, 1.5, accuracy_m=4.0), state)
    assert moved(at(0, 1, accuracy_m=9.0), state_after(replace(HERE, accuracy_m=9.0)))


def test_what_did_not_move_still_makes_an_older_fix_late():
    state = state_after(HERE, at(-10, 0.5))
    assert judge(at(-20, 9), state, NOW).text == "late"
    assert state.latitude == HERE.latitude


def test_a_state_survives_its_redis_hash():
    state = replace(state_after(HERE), cell="1/2", fragment='{"a":"b c"}', stopped=True)
    fields = to_fields(state)
    pairs = dict(zip(map(str, fields[::2]), map(str, fields[1::2]), strict=True))
    assert from_fields(pairs) == state
    assert from_fields({}) == State()


@given(st.randoms(use_true_random=False), st.integers(2, 30))
def test_a_batch_in_any_order_ends_in_the_same_state(random: Random, count: int):
    fixes = [at(-index * 3 - 1, index * random.uniform(0, 3)) for index in range(count)]
    shuffled = random.sample(fixes, k=count)

    def by_time(batch):
        return sorted(batch, key=lambda fix: fix.fixed_at_ms)

    assert state_after(*by_time(shuffled)) == state_after(*by_time(fixes))


@given(st.floats(-89, 89), st.floats(-179, 179), st.floats(-1, 1), st.floats(-1, 1))
def test_distances_agree_with_the_ellipsoid(lat, lon, d_lat, d_lon):
    exact = Geodesic.WGS84.Inverse(lat, lon, lat + d_lat, lon + d_lon)["s12"]
    ours = distance_m(lat, lon, lat + d_lat, lon + d_lon)
    assert ours == pytest.approx(exact, rel=0.006, abs=0.01)


def kept(places: list[tuple[float, float]]) -> int:
    """How many of a track a pure 10 m gate lets through."""
    state, count = State(), 0
    for number, (latitude, longitude) in enumerate(places):
        fix = Fix(NOW - 10_000_000 + number * 1000, latitude, longitude)
        outcome = judge(fix, state, NOW)
        state = after(state, fix, outcome, "v")
        count += outcome.shown
    return count


@pytest.mark.data
def test_the_gate_keeps_what_was_measured_of_liverpool_s_buses():
    path = sample("gps/liverpool_bus/route14_outbound.csv")
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    def track(row):
        return row["vehicle_id"], row["trip_id"]

    rows.sort(key=lambda row: (*track(row), row["timestamp"]))
    total = sum(
        kept([(float(r["latitude"]), float(r["longitude"])) for r in trip])
        for _key, trip in groupby(rows, key=track)
    )
    assert (len(rows), total) == (1533, 1179)


@pytest.mark.data
def test_the_gate_keeps_what_was_measured_of_a_walk():
    root = ET.parse(sample("gps/gpxpy/korita-zbevnica.gpx")).getroot()  # noqa: S314
    points = [element for element in root.iter() if element.tag.endswith("trkpt")]
    places = [(float(p.attrib["lat"]), float(p.attrib["lon"])) for p in points]
    assert kept(places) / len(places) == pytest.approx(0.866, abs=0.001)
