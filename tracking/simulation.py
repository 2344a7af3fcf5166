"""One simulated vehicle: drives, arrives, waits, drives on; says when to send. Pure.

Before it: `tracking.routes`. After it: `tracking.simulated_doors`, which send it.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import atan2, cos, degrees, radians
from random import Random

from tracking.filters import MIN_DISTANCE_M, distance_m
from tracking.routes import CITIES, Place, journey

HEARTBEAT_S = 60.0
REST_S = (12.0, 45.0)


@dataclass
class Vehicle:
    """`speed_mps` is what it reports; it covers `speedup` times as much ground."""

    random: Random
    speedup: float
    city: str = ""
    speed_mps: float = 0.0
    battery_pct: float = 100.0
    rest_s: float = 0.0
    travelled_m: float = 0.0
    course_deg: float = 0.0
    points: list[Place] = field(default_factory=list)
    marks_m: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.city = self.city or self.random.choice(list(CITIES))
        self.battery_pct = self.random.uniform(35, 100)
        self.depart()
        # A fleet that is already under way, not a race from the start line.
        self.travelled_m = self.random.uniform(0, 0.8) * self.marks_m[-1]

    def depart(self) -> None:
        self.city, self.points = journey(self.random, self.city)
        legs = (distance_m(*here, *there) for here, there in pairwise(self.points))
        self.marks_m = list(accumulate(legs, initial=0.0))
        self.speed_mps = self.random.uniform(19, 35)
        self.travelled_m = 0.0

    def advance(self, seconds: float) -> str:
        """Real seconds later: driving | arrived | resting | departed."""
        if self.rest_s > 0:
            self.rest_s -= seconds
            if self.rest_s > 0:
                return "resting"
            self.depart()
            return "departed"
        wanted = self.speed_mps + self.random.uniform(-1.5, 1.5)
        self.speed_mps = min(36.0, max(17.0, wanted))
        self.travelled_m += self.speed_mps * self.speedup * seconds
        self.battery_pct = max(5.0, self.battery_pct - seconds / 90)
        if self.travelled_m < self.marks_m[-1]:
            return "driving"
        self.travelled_m = self.marks_m[-1]
        self.rest_s = self.random.uniform(*REST_S)
        return "arrived"

    def place(self) -> Place:
        """Where it is; also turns its course."""
        index = min(bisect_right(self.marks_m, self.travelled_m), len(self.points) - 1)
        here, there = self.points[index - 1], self.points[index]
        leg = self.marks_m[index] - self.marks_m[index - 1]
        share = (self.travelled_m - self.marks_m[index - 1]) / leg if leg else 0.0
        d_lat, d_lon = there[0] - here[0], there[1] - here[1]
        self.course_deg = degrees(atan2(d_lon * cos(radians(here[0])), d_lat)) % 360
        return here[0] + d_lat * share, here[1] + d_lon * share


@dataclass
class Reporter:
    """What a good phone app does: 10 m since the last fix, or a minute."""

    last: Place | None = None
    last_at_s: float = 0.0

    def is_due(self, place: Place, now_s: float) -> bool:
        if (
            self.last is not None
            and now_s - self.last_at_s < HEARTBEAT_S
            and distance_m(*self.last, *place) <= MIN_DISTANCE_M
        ):
            return False
        self.last, self.last_at_s = place, now_s
        return True
