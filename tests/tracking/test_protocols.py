"""What phones and programs say, and the fix that it means."""

import pytest
import time_machine

from tracking.fixes import Fix, InvalidFix
from tracking.protocols import native, osmand

NOON = 1_764_590_400_000


def test_a_native_fix_has_si_units():
    fix = native.fix(
        {"lat": 1, "lon": 2.5, "fixed_at": NOON, "speed_mps": 3, "unknown": "ignored"}
    )
    assert fix == Fix(NOON, 1.0, 2.5, speed_mps=3.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("not json", "bad_json", id="no JSON"),
        pytest.param("[]", "bad_json", id="no object"),
        pytest.param('{"lat": NaN}', "bad_json", id="NaN is no JSON"),
        pytest.param("[" * 10_000, "bad_json", id="too deep"),
        pytest.param('{"a":' * 5_000, "bad_json", id="too deep objects"),
        pytest.param("", "bad_json", id="nothing"),
        pytest.param('{"lat":1,"lon":2}', "bad_time", id="no time"),
        pytest.param('{"lat":1e999,"lon":2,"fixed_at":1}', "bad_json", id="infinite"),
        pytest.param('{"lat":"1","lon":2,"fixed_at":1}', "bad_coord", id="text"),
    ],
)
def test_what_is_no_native_fix_has_a_reason(text, reason):
    with pytest.raises(InvalidFix) as refused:
        native.fix(native.decode(text))
    assert refused.value.reason == reason


def test_a_bad_item_of_a_batch_keeps_its_place():
    good = {"lat": 1, "lon": 2, "fixed_at": NOON}
    parsed = native.fixes([good, {"lat": 91}, 7, good])
    assert [isinstance(item, Fix) for item in parsed] == [True, False, False, True]
    with pytest.raises(InvalidFix):
        native.fixes([good] * 1001)
    with pytest.raises(InvalidFix):
        native.fixes({"lat": 1})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(
            {"lat": "60.0", "lon": "30.0", "timestamp": str(NOON // 1000)},
            Fix(NOON, 60.0, 30.0),
            id="seconds",
        ),
        pytest.param(
            {"location": "60.0,30.0", "timestamp": str(NOON)},
            Fix(NOON, 60.0, 30.0),
            id="location and milliseconds",
        ),
        pytest.param(
            {"lat": "60", "lon": "30", "timestamp": "2025-12-01T12:00:00Z"},
            Fix(NOON, 60.0, 30.0),
            id="ISO",
        ),
        pytest.param(
            {"lat": "60", "lon": "30", "timestamp": "2025-12-01 12:00:00"},
            Fix(NOON, 60.0, 30.0),
            id="date and time",
        ),
        pytest.param(
            {
                "id": "7",
                "lat": "60",
                "lon": "30",
                "timestamp": str(NOON),
                "speed": "10",
                "heading": "90",
                "altitude": "-3",
                "batt": "55",
                "accuracy": "4.5",
                "charge": "true",
                "alarm": "sos",
            },
            Fix(NOON, 60.0, 30.0, 4.5, 5.14444, 90.0, -3.0, 55.0),
            id="all of it, knots",
        ),
        pytest.param(
            {
                "lat": "60",
                "lon": "30",
                "timestamp": str(NOON),
                "speed": "-1",
                "batt": "x",
            },
            Fix(NOON, 60.0, 30.0),
            id="unreadable details are left out",
        ),
        pytest.param({"id": "7", "batt": "50"}, None, id="heartbeat"),
    ],
)
def test_osmand_means(query, expected):
    assert osmand.fix(query) == expected


@time_machine.travel(NOON / 1000, tick=False)
def test_osmand_without_a_time_is_now():
    assert osmand.fix({"lat": "1", "lon": "2"}) == Fix(NOON, 1.0, 2.0)


@pytest.mark.parametrize(
    "query",
    [
        {"lat": "NaN", "lon": "2"},
        {"lat": "1e999", "lon": "2"},
        {"lat": "12.3abc", "lon": "2"},
        {"lat": "91", "lon": "2"},
        {"lat": "1"},
        {"location": "1"},
        {"lat": "", "lon": ""},
    ],
)
def test_osmand_without_a_place_is_refused(query):
    with pytest.raises(InvalidFix) as refused:
        osmand.fix(query)
    assert refused.value.reason == "bad_coord"
