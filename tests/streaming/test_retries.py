"""The retry decision is a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.retries import (
    NEVER,
    GiveUp,
    Reject,
    Retry,
    RetryAt,
    RetryPolicy,
    decide,
)

POLICY = RetryPolicy(max_attempts=4, base_s=2, cap_s=10)
ERROR = ValueError("x")


@pytest.mark.parametrize(
    ("attempts", "error", "expected"),
    [
        pytest.param(1, ERROR, RetryAt(2), id="first failure"),
        pytest.param(2, ERROR, RetryAt(4), id="doubles"),
        pytest.param(3, ERROR, RetryAt(8), id="doubles again"),
        pytest.param(4, ERROR, GiveUp("gave_up"), id="the last attempt"),
        pytest.param(99, ERROR, GiveUp("gave_up"), id="long after it"),
        pytest.param(1, Reject("no_such"), GiveUp("no_such"), id="rejected"),
        pytest.param(2, Retry(after=60), RetryAt(60), id="the handler knows when"),
        pytest.param(2, Retry(after=-1), RetryAt(0), id="never into the past"),
        pytest.param(2, Retry("busy"), RetryAt(4), id="the handler does not know"),
        pytest.param(4, Retry(after=1), GiveUp("gave_up"), id="asked too often"),
    ],
)
def test_decisions(attempts, error, expected):
    assert decide(POLICY, attempts, error, jitter=lambda: 1.0) == expected


def test_the_cap_bounds_the_wait():
    policy = RetryPolicy(max_attempts=10**6, base_s=2, cap_s=10)
    assert decide(policy, 10**5, ERROR, jitter=lambda: 1.0) == RetryAt(10)


def test_never_means_once():
    assert decide(NEVER, 1, ERROR) == GiveUp("gave_up")


@given(st.integers(1, 3))
def test_jitter_is_full(attempts):
    waits = {
        decision.after_s
        for _ in range(20)
        if isinstance(decision := decide(POLICY, attempts, ERROR), RetryAt)
    }
    assert all(0 <= wait <= 2 * 2 ** (attempts - 1) for wait in waits)
    assert len(waits) > 1
