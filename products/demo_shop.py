"""A third-party shop to import from: a made-up catalogue whose prices drift with time.

Before it: nothing; every product is a function of its number, the seed and the minute.
After it: `demo_server`, which serves it as JSON pages and as a Google Merchant feed.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

SLOT_S = 60

# Category → (product nouns, price range in euros).
CATEGORIES: dict[str, tuple[tuple[str, ...], int, int]] = {
    "outdoor": (
        ("Trekking Tent", "Sleeping Bag", "Camp Stove", "Headlamp", "Daypack"),
        18,
        420,
    ),
    "kitchen": (
        ("Cast Iron Pan", "Chef's Knife", "Moka Pot", "Mixing Bowl", "Stand Mixer"),
        9,
        380,
    ),
    "audio": (
        ("Over-Ear Headphones", "Bookshelf Speaker", "Turntable", "Soundbar"),
        39,
        690,
    ),
    "bicycles": (
        ("Gravel Bike", "Pannier", "Bike Helmet", "Frame Bag", "Chain Lube"),
        8,
        2400,
    ),
    "furniture": (
        ("Side Table", "Office Chair", "Bookcase", "Floor Lamp", "Coat Rack"),
        29,
        780,
    ),
    "garden": (
        ("Pruning Shears", "Rain Barrel", "Raised Bed", "Watering Can"),
        11,
        190,
    ),
    "stationery": (("Fountain Pen", "Notebook A5", "Desk Pad", "Wall Planner"), 4, 90),
    "clothing": (
        ("Merino Sweater", "Rain Jacket", "Linen Shirt", "Wool Socks", "Work Trousers"),
        12,
        260,
    ),
    "tools": (("Cordless Drill", "Socket Set", "Spirit Level", "Hand Plane"), 14, 340),
    "lighting": (("Pendant Light", "Reading Lamp", "LED Strip", "Lantern"), 13, 220),
}
BRANDS = (
    "Nordhavn", "Alder & Finch", "Kestrel Works", "Montclair", "Juniper Lane",
    "Halden", "Bright Anvil", "Ostara", "Wayfarer Supply", "Solmara",
)  # fmt: skip
LINES = (
    "Classic", "Alpine", "Studio", "Compact", "Heritage", "Pro", "Everyday", "Coastal",
    "Summit", "Atelier", "Origin", "Field",
)  # fmt: skip
FINISHES = (
    "Charcoal", "Sand", "Forest Green", "Midnight Blue", "Oak", "Terracotta", "Graphite",
    "Ivory", "Rust", "Slate", "Copper", "Moss",
)  # fmt: skip


@dataclass(frozen=True)
class Catalogue:
    """`size` products, numbered from 1; equal seeds make equal shops."""

    size: int = 5000
    seed: int = 1

    def product(self, number: int, at: datetime) -> dict[str, Any]:
        """The product as the API shows it at an instant, in DummyJSON's shape."""
        fixed = _fixed(self.seed, number)
        age, price_cents, stock = self._volatile(number, at)
        return {
            "id": number,
            **fixed,
            "price": price_cents / 100,
            "stock": stock,
            "availabilityStatus": _availability(stock),
            "meta": {"barcode": _barcode(number), "updatedAt": age.isoformat()},
        }

    def page(self, skip: int, limit: int, at: datetime) -> list[dict[str, Any]]:
        """`limit` 0 means everything, as DummyJSON has it."""
        end = self.size if limit == 0 else min(self.size, skip + limit)
        return [self.product(number, at) for number in range(skip + 1, end + 1)]

    def _volatile(self, number: int, at: datetime) -> tuple[datetime, int, int]:
        """(since when, price in cents, stock): each product changes in its own rhythm.

        A rhythm of 25 to 55 minutes changes a few of a hundred products per minute.
        """
        base = _draw(self.seed, number, "rhythm")
        period, offset = 25 + base % 31, (base >> 8) % 55
        slot = int(at.timestamp()) // SLOT_S
        era = (slot + offset) // period
        since = datetime.fromtimestamp((era * period - offset) * SLOT_S, UTC)
        drift = _draw(self.seed, number, f"era {era}")
        base_cents = _base_cents(self.seed, number)
        percent = 92 + drift % 17
        stock = 0 if (drift >> 8) % 40 == 0 else (drift >> 16) % 250
        return since, base_cents * percent // 100, stock


@lru_cache(maxsize=20_000)
def _fixed(seed: int, number: int) -> dict[str, Any]:
    draw = _draw(seed, number, "identity")
    category = list(CATEGORIES)[draw % len(CATEGORIES)]
    nouns = CATEGORIES[category][0]
    noun = nouns[(draw >> 8) % len(nouns)]
    brand = BRANDS[(draw >> 16) % len(BRANDS)]
    line = LINES[(draw >> 24) % len(LINES)]
    finish = FINISHES[(draw >> 32) % len(FINISHES)]
    return {
        "title": f"{brand} {line} {noun}, {finish}",
        "description": f"{noun} of the {line} line by {brand}, finished in {finish}.",
        "category": category,
        "brand": brand,
        "sku": f"{category[:3].upper()}-{brand[:3].upper()}-{number:05d}",
        "thumbnail": f"https://shop.example/images/{number}.webp",
    }


def _base_cents(seed: int, number: int) -> int:
    draw = _draw(seed, number, "price")
    category = _fixed(seed, number)["category"]
    _, low, high = CATEGORIES[category]
    # Squared, so that most prices are near the low end, and all end in 9.
    share = ((draw % 1000) / 1000) ** 2
    return int((low + (high - low) * share) * 10) * 10 + 9


def _draw(seed: int, number: int, what: str) -> int:
    """56 bits that look random and are the same on every machine."""
    text = f"{seed}/{number}/{what}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest())


def _barcode(number: int) -> str:
    """An EAN-13 of the range reserved for use within a company, check digit right."""
    digits = f"20{number:010d}"
    total = sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(digits))
    return f"{digits}{-total % 10}"


def _availability(stock: int) -> str:
    if stock == 0:
        return "Out of Stock"
    return "Low Stock" if stock < 10 else "In Stock"
