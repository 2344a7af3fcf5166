"""Plain functions that make what the products tests need."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from products.importer import import_source
from products.models import ImportRun, Source
from products.records import FIELDS, ProductRecord
from project.jobs.lease import Lease, hold

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def make_source(**over: Any) -> Source:
    values = {
        "slug": "shop",
        "name": "Shop",
        "kind": "rest_json",
        "url": "http://shop.test/products",
        "currency": "EUR",
    }
    return Source.objects.create(**values | over)


def make_record(external_id: str = "1", **over: Any) -> ProductRecord:
    from decimal import Decimal

    values = {"title": f"Product {external_id}", "price": Decimal("9.99")}
    return ProductRecord(external_id, **{"currency": "EUR", **values, **over})


def make_row(number: int, **over: Any) -> dict[str, Any]:
    return {"id": number, "title": f"Product {number}", "price": 9.99} | over


def serve_rows(
    server: HTTPServer, rows: list[dict[str, Any]], path: str = "/products"
) -> list[Request]:
    """A skip/limit API of `rows`; the list it returns fills with the requests."""
    requests: list[Request] = []

    def answer(request: Request) -> Response:
        requests.append(request)
        skip, limit = (int(request.args[name]) for name in ("skip", "limit"))
        page = rows[skip : skip + limit]
        document = {"products": page, "total": len(rows), "skip": skip}
        return Response(json.dumps(document), content_type="application/json")

    server.expect_request(path).respond_with_handler(answer)
    return requests


@contextmanager
def lease_of(source: Source) -> Iterator[Lease]:
    with hold("import-products", {"source_id": source.pk}, ttl=30) as lease:
        yield lease


def run_import(source: Source) -> ImportRun:
    source.refresh_from_db()
    with lease_of(source) as lease:
        return import_source(source, lease)


def counts_of(run: ImportRun) -> dict[str, int]:
    """The counts that are not zero."""
    names = "seen created updated unchanged restored invalid duplicate".split()  # noqa: SIM905
    return {name: getattr(run, name) for name in names if getattr(run, name)}


def stored(source: Source) -> dict[str, tuple[Any, ...]]:
    return {
        row[0]: row[1:]
        for row in source.products.values_list("external_id", *FIELDS).order_by("pk")
    }
