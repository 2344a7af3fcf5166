"""Events for the demo: prices and stock of the shop, ferries at sea, a few broken ones.

Before it: `manage.py demo_events` gives it a clock and a random source. After it: Kafka.
Pure: numbers in, (topic, key, bytes) out.
"""

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import orjson

PRODUCTS, FIXES = "product-changes", "fixes"
TOPICS = {PRODUCTS: 4, FIXES: 2}
SOURCE = "demo-shop"
BROKEN_ONE_IN = 200
SPEED_MPS = 15.0
EARTH_M = 6_371_000.0

Event = tuple[str, bytes, bytes]

# Two ports each, (latitude, longitude); the straight line between them is water.
FERRIES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "Ferry Dover-Calais": ((51.12, 1.34), (50.97, 1.84)),
    "Ferry Helsinki-Tallinn": ((60.14, 24.95), (59.46, 24.76)),
    "Ferry Holyhead-Dublin": ((53.33, -4.62), (53.35, -6.12)),
    "Ferry Barcelona-Palma": ((41.35, 2.18), (39.57, 2.61)),
    "Ferry Gedser-Rostock": ((54.57, 11.93), (54.18, 12.09)),
    "Ferry Ancona-Split": ((43.63, 13.50), (43.49, 16.40)),
}


@dataclass(frozen=True)
class Product:
    external_id: str
    price: Decimal
    currency: str
    stock: int


def product_change(product: Product, now: datetime, random: Random) -> Event:
    """Its price within ten percent, its stock within twenty pieces."""
    percent = Decimal(random.randint(90, 110))
    price = (product.price * percent / 100).quantize(Decimal("0.01"))
    fields = {
        "schema": "product-change/1",
        "event_id": str(uuid.UUID(int=random.getrandbits(128), version=4)),
        "source": SOURCE,
        "external_id": product.external_id,
        "price": str(price),
        "currency": product.currency,
        "stock": max(0, product.stock + random.randint(-20, 20)),
        "changed_at": now.isoformat(),
    }
    return PRODUCTS, product.external_id.encode(), _broken(fields, random)


def fix(device_id: int, name: str, now: datetime, random: Random) -> Event:
    """Where the ferry of this name is at `now`."""
    lat, lon, course_deg = position(name, now.timestamp())
    fields = {
        "schema": "fix/1",
        "event_id": str(uuid.UUID(int=random.getrandbits(128), version=4)),
        "device": str(device_id),
        "lat": round(lat, 6),
        "lon": round(lon, 6),
        "fixed_at": (now - timedelta(milliseconds=random.randint(0, 400))).isoformat(),
        "accuracy_m": 5.0,
        "speed_mps": SPEED_MPS,
        "course_deg": round(course_deg, 1),
    }
    return FIXES, str(device_id).encode(), _broken(fields, random)


def position(name: str, at_s: float) -> tuple[float, float, float]:
    """(latitude, longitude, course in degrees): there and back for ever."""
    start, end = FERRIES[name]
    north_m = math.radians(end[0] - start[0]) * EARTH_M
    scale = math.cos(math.radians((start[0] + end[0]) / 2))
    east_m = math.radians(end[1] - start[1]) * EARTH_M * scale
    crossing_s = math.hypot(north_m, east_m) / SPEED_MPS
    # Each ferry starts its day at another minute, so they are spread over their lines.
    phase = (at_s + 977 * list(FERRIES).index(name)) / crossing_s % 2
    share, course = (phase, 0.0) if phase < 1 else (2 - phase, 180.0)
    course = (math.degrees(math.atan2(east_m, north_m)) + course) % 360
    lat = start[0] + (end[0] - start[0]) * share
    lon = start[1] + (end[1] - start[1]) * share
    return lat, lon, course


def _broken(fields: dict[str, Any], random: Random) -> bytes:
    """The event as JSON; about one in 200 is broken as real producers break them."""
    if random.randrange(BROKEN_ONE_IN):
        return orjson.dumps(fields)
    fault: Callable[[dict[str, Any]], bytes] = random.choice(FAULTS)
    return fault(fields)


def _cut(fields: dict[str, Any]) -> bytes:
    """A producer that died while it wrote."""
    return orjson.dumps(fields)[:-15]


def _without_id(fields: dict[str, Any]) -> bytes:
    gone = {"external_id", "device"}
    return orjson.dumps({k: v for k, v in fields.items() if k not in gone})


def _out_of_range(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(
        fields | ({"lat": 912.4} if "lat" in fields else {"stock": 1e12})
    )


def _unknown_owner(fields: dict[str, Any]) -> bytes:
    """Valid JSON of a valid shape, but nobody here knows whose it is."""
    owner = {"device": "0"} if "device" in fields else {"source": "shop-that-closed"}
    return orjson.dumps(fields | owner)


def _next_version(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields | {"schema": str(fields["schema"])[:-1] + "2"})


FAULTS: Sequence[Any] = (
    _cut,
    _without_id,
    _out_of_range,
    _unknown_owner,
    _next_version,
)
