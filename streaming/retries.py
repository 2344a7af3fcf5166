"""When a failed message is tried again: (policy, attempts, error) → RetryAt | GiveUp.

Before it: `lanes`, which caught the error. After it: `inbox`, which writes the decision.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass


class Retry(Exception):
    """Raised by a handler: not now. `after` seconds, or the policy's own back-off."""

    def __init__(self, detail: str = "", *, after: float | None = None) -> None:
        super().__init__(detail)
        self.after = after


class Reject(Exception):
    """Raised by a handler: never. The message becomes a dead letter at once.

    `reason` is a short stable label that people filter by.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


@dataclass(frozen=True)
class RetryAt:
    """Try again `after_s` seconds from now, on the clock of the database."""

    after_s: float


@dataclass(frozen=True)
class GiveUp:
    """Bury it under this reason."""

    reason: str


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off with full jitter; `max_attempts` counts the first one too."""

    max_attempts: int = 6
    base_s: float = 1.0
    cap_s: float = 300.0


STANDARD = RetryPolicy()
QUICK = RetryPolicy(max_attempts=5, base_s=0.5, cap_s=30)
PATIENT = RetryPolicy(max_attempts=10, base_s=5, cap_s=900)
NEVER = RetryPolicy(max_attempts=1)

GAVE_UP = "gave_up"


def decide(
    policy: RetryPolicy,
    attempts: int,
    error: Exception,
    jitter: Callable[[], float] = random.random,
) -> RetryAt | GiveUp:
    """`attempts` includes the one that just failed; `jitter` returns 0.0 to 1.0."""
    if isinstance(error, Reject):
        return GiveUp(error.reason)
    if attempts >= policy.max_attempts:
        return GiveUp(GAVE_UP)
    if isinstance(error, Retry) and error.after is not None:
        return RetryAt(max(0.0, error.after))
    # The exponent is bounded: 2 ** 5000 would not fit a float.
    ceiling = min(policy.cap_s, policy.base_s * 2 ** min(attempts - 1, 30))
    return RetryAt(ceiling * jitter())
