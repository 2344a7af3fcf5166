"""What may be a fix: numbers, times, and the reasons of what may not."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracking.fixes import InvalidFix, build, number, parse_time

NOON = 1_764_590_400_000  # 2025-12-01T12:00:00Z


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(math.nan, id="nan"),
        pytest.param(math.inf, id="infinity"),
        pytest.param("NaN", id="text nan"),
        pytest.param("47.1", id="text"),
        pytest.param("12.3abc", id="text with letters"),
        pytest.param(True, id="bool"),
        pytest.param(None, id="null"),
        pytest.param([1], id="list"),
        pytest.param(90.0001, id="beyond the pole"),
        pytest.param(-90.0001, id="beyond the other pole"),
        pytest.param(10**400, id="huge integer"),
    ],
)
def test_a_latitude_that_is_none_is_refused(value: Any):
    with pytest.raises(InvalidFix) as refused:
        build(NOON, value, 8.5)
    assert refused.value.reason == "bad_coord"


@pytest.mark.parametrize("place", [(90, 180), (-90, -180), (0, 0), (-0.0, 12.5)])
def test_the_edges_of_the_world_are_valid(place):
    fix = build(NOON, *place)
    assert (fix.latitude, fix.longitude) == place


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        pytest.param("speed_mps", -1, None, id="unknown speed"),
        pytest.param("accuracy_m", -1, None, id="unknown accuracy"),
        pytest.param("battery_pct", -100, None, id="unknown battery"),
        pytest.param("battery_pct", 101, None, id="battery above full"),
        pytest.param("course_deg", 360, 0.0, id="full circle is north"),
        pytest.param("course_deg", -1, None, id="unknown course"),
        pytest.param("altitude_m", -12.5, -12.5, id="below the sea"),
    ],
)
def test_minus_one_means_unknown_where_phones_mean_it(name, value, expected):
    assert getattr(build(NOON, 1, 2, **{name: value}), name) == expected


@pytest.mark.parametrize("value", [math.nan, "5", True, {}])
def test_a_detail_of_the_wrong_type_is_refused(value: Any):
    with pytest.raises(InvalidFix) as refused:
        build(NOON, 1, 2, accuracy_m=value)
    assert refused.value.reason == "bad_field"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(NOON, NOON, id="milliseconds"),
        pytest.param(NOON // 1000, NOON, id="seconds"),
        pytest.param(str(NOON), NOON, id="milliseconds as text"),
        pytest.param(str(NOON // 1000), NOON, id="seconds as text"),
        pytest.param("2025-12-01T12:00:00Z", NOON, id="ISO"),
        pytest.param("2025-12-01T13:00:00+01:00", NOON, id="ISO with offset"),
        pytest.param("2025-12-01 12:00:00", NOON, id="no zone is UTC"),
        pytest.param("2025-12-01T12:00:00.250Z", NOON + 250, id="fraction"),
        pytest.param("2016-12-31T23:59:60Z", 1_483_228_800_000, id="leap second"),
    ],
)
def test_a_time_is_read_in_every_form_that_phones_send(value, expected):
    assert parse_time(value) == expected


@pytest.mark.parametrize(
    "value", [0, -5, math.nan, math.inf, True, None, "", "yesterday", 10**14, {}]
)
def test_a_time_that_is_none_is_refused(value: Any):
    with pytest.raises(InvalidFix) as refused:
        parse_time(value)
    assert refused.value.reason == "bad_time"


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "12.3abc", "", "0x1F", "٣", "+"])
def test_text_that_python_might_take_for_a_number_is_refused(text):
    with pytest.raises(ValueError, match="not a number"):
        number(text)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(anything, anything, anything, anything)
def test_any_input_is_a_fix_or_a_reason(time, latitude, longitude, detail):
    try:
        fix = build(parse_time(time), latitude, longitude, speed_mps=detail)
    except InvalidFix:
        return
    assert abs(fix.latitude) <= 90
    assert abs(fix.longitude) <= 180
    assert math.isfinite(fix.fixed_at_ms)
