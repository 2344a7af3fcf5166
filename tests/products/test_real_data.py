"""Real catalogues, served over HTTP, import with exact counts; again writes nothing."""

import json
from decimal import Decimal

import pytest
from pytest_httpserver import HTTPServer

from products.models import Product, Source
from tests.products.factories import counts_of, make_source, run_import, serve_rows
from tests.sample_data import sample

pytestmark = [pytest.mark.django_db, pytest.mark.data]


def test_dummyjson_imports_194_products(httpserver: HTTPServer) -> None:
    rows = json.loads(sample("products/dummyjson-products.json").read_text())
    serve_rows(httpserver, rows)
    source = make_source(url=httpserver.url_for("/products"), currency="USD")
    run = run_import(source)
    assert counts_of(run) == {"seen": 194, "created": 194}
    assert (run.outcome, run.complete, run.requests) == ("succeeded", True, 2)
    first = Product.objects.get(external_id="1")
    assert first.title == rows[0]["title"]
    assert (first.price, first.currency) == (Decimal(str(rows[0]["price"])), "USD")
    assert first.gtin == rows[0]["meta"]["barcode"]
    assert source.products.filter(brand="").count() == 92
    assert counts_of(run_import(source)) == {"seen": 194, "unchanged": 194}


def feed_source(httpserver: HTTPServer) -> Source:
    feed = sample("products/derived-google-merchant.xml").read_bytes()
    httpserver.expect_request("/feed.xml").respond_with_data(feed)
    url = httpserver.url_for("/feed.xml")
    return make_source(kind="google_merchant", url=url, currency="")


def test_a_google_merchant_feed_imports_194_products(httpserver: HTTPServer) -> None:
    source = feed_source(httpserver)
    run = run_import(source)
    assert counts_of(run) == {"seen": 194, "created": 194}
    assert (run.outcome, run.complete) == ("succeeded", True)
    products = source.products
    assert products.filter(availability="out_of_stock").count() == 4
    assert products.exclude(sale_price=None).count() == 104
    assert products.filter(brand="").count() == 92
    first = products.get(external_id="BEA-ESS-ESS-001")
    assert (first.price, first.sale_price) == (Decimal("9.99"), Decimal("8.94"))
    assert first.url == "https://example.com/p/1?utm=a&b=c"
    assert counts_of(run_import(source)) == {"seen": 194, "unchanged": 194}


def test_no_shipping_price_became_a_product_price(httpserver: HTTPServer) -> None:
    rows = json.loads(sample("products/dummyjson-products.json").read_text())
    source = feed_source(httpserver)
    run_import(source)
    expected = {row["sku"]: Decimal(str(row["price"])) for row in rows}
    assert dict(source.products.values_list("external_id", "price")) == expected
