"""The demo shop: the same on every machine, drifting slowly, now and then unwell."""

import json
import signal
from datetime import UTC, datetime, timedelta
from io import BytesIO

import httpx2
import pytest
from django_celery_beat.models import PeriodicTask

from products.demo_server import merchant_feed
from products.demo_shop import Catalogue
from products.models import Source
from products.readers import READERS
from products.readers.google_merchant import items
from products.records import mapping_for, parse
from tests.processes import Processes
from tests.products.factories import counts_of, run_import

AT = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


def test_every_product_of_both_protocols_is_valid() -> None:
    page = Catalogue(500).page(0, 0, AT)
    mapping = mapping_for(READERS["rest_json"].mapping, {})
    for row in json.loads(json.dumps(page)):
        parse(row, mapping, "EUR")
    mapping = mapping_for(READERS["google_merchant"].mapping, {})
    feed = BytesIO(merchant_feed(page).encode())
    assert len([parse(row, mapping, "") for row in items(feed)]) == 500


def test_equal_seeds_make_equal_shops() -> None:
    assert Catalogue(50, 7).page(0, 0, AT) == Catalogue(50, 7).page(0, 0, AT)
    assert Catalogue(50, 7).page(0, 0, AT) != Catalogue(50, 8).page(0, 0, AT)


def test_a_few_of_a_hundred_products_change_each_minute() -> None:
    catalogue = Catalogue(2000)
    for minute in range(0, 120, 30):
        then = AT + timedelta(minutes=minute)
        before = catalogue.page(0, 0, then)
        after = catalogue.page(0, 0, then + timedelta(minutes=1))
        changed = sum(old != new for old, new in zip(before, after, strict=True))
        assert 20 < changed < 120


def test_nothing_but_price_and_stock_changes_and_prices_stay_near() -> None:
    catalogue = Catalogue(300)
    before = catalogue.page(0, 0, AT)
    after = catalogue.page(0, 0, AT + timedelta(days=9))
    drifting = {"price", "stock", "availabilityStatus", "meta"}
    for old, new in zip(before, after, strict=True):
        assert {k for k in old if old[k] != new[k]} <= drifting
        assert 0.8 < new["price"] / old["price"] < 1.25


@pytest.fixture
def shop(processes: Processes, unused_port: int) -> str:
    processes.manage(
        "demo_shop", f"--port={unused_port}", "--products=250", "--register"
    )
    url = f"http://127.0.0.1:{unused_port}"
    processes.wait_for(lambda: _answers(url), what="the demo shop answers")
    return url


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/stats").status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.journey
def test_the_shop_registers_itself_and_is_imported(
    shop: str, processes: Processes
) -> None:
    source = Source.objects.get(slug="demo-shop")
    schedule = PeriodicTask.objects.get(name="import demo-shop")
    assert (schedule.interval.every, schedule.interval.period) == (60, "seconds")
    assert json.loads(schedule.kwargs) == {"source_id": source.pk}

    run = run_import(source)
    assert counts_of(run) == {"seen": 250, "created": 250}
    again = counts_of(run_import(source))
    assert again["seen"] == 250
    assert again["unchanged"] > 200

    stats = httpx2.get(f"{shop}/stats").json()
    assert stats["requests"] == 6
    assert stats["by_path"] == {"/products": 6}

    process = processes.all["demo_shop"]
    assert processes.stop("demo_shop", signal.SIGTERM) == 0
    assert process.poll() == 0


@pytest.mark.journey
def test_etag_and_faults_are_what_clients_must_live_with(shop: str) -> None:
    page = f"{shop}/products?limit=3&skip=247"
    first = httpx2.get(page)
    assert [row["id"] for row in first.json()["products"]] == [248, 249, 250]
    assert first.json()["total"] == 250
    same = httpx2.get(page, headers={"If-None-Match": first.headers["ETag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert httpx2.get(f"{shop}/products?limit=x").status_code == 400
    assert httpx2.get(f"{shop}/nowhere").status_code == 404
    statuses = [httpx2.get(page).status_code for _ in range(36)]
    assert (statuses.count(429), statuses.count(503)) == (1, 1)
    stats = httpx2.get(f"{shop}/stats").json()
    assert stats["requests"] == 40
    assert sum(stats["by_status"].values()) == 40


def test_a_port_that_is_taken_is_one_clear_line(
    shop: str, processes: Processes
) -> None:
    port = shop.rsplit(":", 1)[1]
    second = processes.manage("demo_shop", f"--port={port}", name="second")
    assert second.wait(20) == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in processes.log("second")
