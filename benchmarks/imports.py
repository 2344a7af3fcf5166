"""How fast the upsert is, against a loop of `update_or_create`, in one run.

    .venv/bin/python benchmarks/imports.py [--quick] [--format text|json]

Starts its own PostgreSQL unless DATABASE_URL names one; leaves nothing behind.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

# Django's models can only be imported once the database is known: hence the imports
# inside of functions.
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

BATCH = 1000
PHASES = ("insert", "changed", "unchanged")
TARGETS = {
    "import.insert_ratio": 75,
    "import.changed_ratio": 50,
    "import.unchanged_ratio": 250,
    "import.unchanged_wal_bytes": 1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast products are written.")
    parser.add_argument("--quick", action="store_true", help="5,000 rows, not 20,000.")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    options = parser.parse_args()
    figures = on_a_database(5_000 if options.quick else 20_000)
    if options.format == "json":
        machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
        document = {"schema": "drover.bench/1", "machine": machine, "figures": figures}
        sys.stdout.write(json.dumps(document) + "\n")
        return
    for figure in figures:
        target = f"  (target {figure['target']})" if figure["target"] else ""
        value = f"{figure['value']:,.1f}"
        sys.stdout.write(f"{figure['id']:<28}{value:>12} {figure['unit']}{target}\n")


def on_a_database(rows: int) -> list[dict[str, Any]]:
    """Measure on DATABASE_URL's server, else on one that is started for it."""
    os.environ |= {"DEBUG": "true", "SECRET_KEY": "benchmark", "LOG_LEVEL": "ERROR"}
    os.environ |= {"DROVER_IGNORE_DEMO": "1"}
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    from project.embedded import Postgres, make_private

    if os.environ.get("DATABASE_URL"):
        return in_test_database(rows)
    state = ROOT / ".drover"
    make_private(state)
    folder = state / f"bench-{os.getpid()}"
    postgres = Postgres(folder)
    try:
        postgres.start()
        os.environ["DATABASE_URL"] = postgres.url
        return in_test_database(rows)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def in_test_database(rows: int) -> list[dict[str, Any]]:
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection

    settings.DEBUG = False  # it would keep every query
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        return measure(rows)
    finally:
        connection.creation.destroy_test_db(
            str(settings.DATABASES["default"]["NAME"]), 0
        )


def measure(rows: int) -> list[dict[str, Any]]:
    """Ratios of rows per second; the loop runs over a twentieth of the rows."""
    loop = {name: median(few_rows(rows // 20, by_loop))[name] for name in PHASES}
    batch = {name: median(few_rows(rows, by_batch))[name] for name in PHASES}
    return [
        *(
            figure(f"import.{name}_ratio", batch[name] / loop[name], "x")
            for name in PHASES
        ),
        *(figure(f"import.{name}_rows", batch[name], "rows/s") for name in PHASES),
        figure("import.unchanged_wal_bytes", wal_of_unchanged(rows), "bytes/row"),
    ]


def figure(name: str, value: float, unit: str) -> dict[str, Any]:
    target = TARGETS.get(name)
    limit = 1.0 if target == 1 else None
    met = None if target is None else (value <= limit if limit else value >= target)
    text = None if target is None else (f"≤ {target}" if limit else f"≥ {target}")
    value = round(value, 2)
    return {"id": name, "value": value, "unit": unit, "target": text, "met": met}


def records(count: int, version: int) -> list[Any]:
    from products.records import ProductRecord

    return [
        ProductRecord(
            external_id=f"{number:07d}",
            title=f"A product with a title of usual length, number {number}",
            price=Decimal(number % 900 + version) + Decimal("0.99"),
            currency="EUR",
            stock=number % 200,
            availability="in_stock",
            sku=f"SKU-{number}",
            brand=f"Brand {number % 40}",
            category="outdoor",
            description="What a shop says about a product, twice over. " * 6,
        )
        for number in range(count)
    ]


def few_rows(
    count: int, write: Callable[[Any, list[Any], datetime], None]
) -> list[dict[str, float]]:
    """Three times: rows/s of inserting, changing all, changing nothing."""
    from products.models import Source

    samples = []
    for number in range(3):
        source, _ = Source.objects.get_or_create(slug="bench", name="Bench")
        source.products.all().delete()
        sample = {}
        for phase, version in zip(PHASES, (0, 1, 1), strict=True):
            rows = records(count, version)
            at = datetime(2026, 1, 1, number, version, tzinfo=UTC)
            started = time.perf_counter()
            write(source, rows, at)
            sample[phase] = count / (time.perf_counter() - started)
        samples.append(sample)
    return samples


def by_loop(source: Any, rows: list[Any], _at: datetime) -> None:
    from products.models import Product
    from products.records import FIELDS

    for record in rows:
        Product.objects.update_or_create(
            source=source,
            external_id=record.external_id,
            defaults=dict(zip(FIELDS, record[1:], strict=True)),
        )


def by_batch(source: Any, rows: list[Any], at: datetime) -> None:
    from django.db import transaction

    from products.upsert import upsert

    for start in range(0, len(rows), BATCH):
        upsert(
            source,
            rows[start : start + BATCH],
            fenced=transaction.atomic,
            fetched_at=at,
        )


def median(samples: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(s[name] for s in samples) for name in PHASES}


def wal_of_unchanged(count: int) -> float:
    from django.db import connection

    from products.models import Source

    def position() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
            row = cursor.fetchone()
        return int(row[0]) if row else 0

    with connection.cursor() as cursor:
        # Reading sets hint bits once; that is not what an import costs each hour.
        cursor.execute("VACUUM ANALYZE products_product")
    source = Source.objects.get(slug="bench")
    before = position()
    by_batch(source, records(count, 1), datetime(2026, 1, 2, tzinfo=UTC))
    return (position() - before) / count


if __name__ == "__main__":
    main()
