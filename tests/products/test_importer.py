"""Whole imports over HTTP: the counts sum, and no feed can do harm."""

from typing import Any

import pytest
from django.db import IntegrityError, connection
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from products.importer import ImportFailed, import_source
from products.models import ImportRun, Product, RowIssue, Source
from products.upsert import edit
from project.jobs.lease import Lease, StaleFence
from project.jobs.models import JobLease, JobRun
from tests.products.factories import (
    counts_of,
    lease_of,
    make_row,
    make_source,
    run_import,
    serve_rows,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(httpserver: HTTPServer) -> Source:
    return make_source(url=httpserver.url_for("/products"))


def versions() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, xmin, ctid FROM products_product ORDER BY id")
        return list(cursor.fetchall())


def test_a_first_run_creates_and_a_second_writes_nothing(
    httpserver: HTTPServer, source: Source
) -> None:
    requests = serve_rows(httpserver, [make_row(n) for n in range(1, 251)])
    run = run_import(source)
    assert counts_of(run) == {"seen": 250, "created": 250}
    assert (run.outcome, run.complete, run.requests) == ("succeeded", True, 3)
    assert JobRun.objects.get().counts["created"] == 250
    before = versions()
    again = run_import(source)
    assert counts_of(again) == {"seen": 250, "unchanged": 250}
    assert versions() == before
    assert len(requests) == 6


def test_hostile_rows_are_counted_and_kept_and_the_rest_is_stored(
    httpserver: HTTPServer, source: Source
) -> None:
    rows = [make_row(n) for n in range(1, 1001)]
    rows[100] |= {"title": "a\x00b"}
    rows[200] |= {"price": "NaN"}
    rows[300] |= {"sku": "s" * 300}
    rows[400] |= {"stock": 2**40}
    rows[500] |= {"id": None}
    rows[601] |= {"id": rows[600]["id"], "title": "The later row"}
    serve_rows(httpserver, rows)
    run = run_import(source)
    assert counts_of(run) == {
        "seen": 1000,
        "created": 994,
        "invalid": 5,
        "duplicate": 1,
    }
    assert run.outcome == "partial"
    issues = RowIssue.objects.values_list("row", "external_id", "field", "code")
    assert list(issues) == [
        (101, "101", "title", "bad_text"),
        (201, "201", "price", "bad_price"),
        (301, "301", "sku", "too_long"),
        (401, "401", "stock", "bad_number"),
        (501, "", "external_id", "missing"),
    ]
    assert '"NaN"' in RowIssue.objects.get(row=201).raw
    assert source.products.count() == 994
    assert Product.objects.get(external_id="601").title == "The later row"


def test_an_id_that_comes_again_on_a_later_page_is_a_duplicate_and_wins(
    httpserver: HTTPServer, source: Source
) -> None:
    rows = [make_row(n) for n in range(1, 151)]
    rows[120] |= {"id": 1, "title": "The later row"}
    serve_rows(httpserver, rows)
    run = run_import(source)
    assert counts_of(run) == {"seen": 150, "created": 149, "duplicate": 1}
    assert Product.objects.get(external_id="1").title == "The later row"


def test_pages_that_go_in_circles_end_the_run_at_once(
    httpserver: HTTPServer, source: Source
) -> None:
    requests: list[Request] = []

    def last_page_for_ever(request: Request) -> Response:
        requests.append(request)
        return Response(
            '{"products": [{"id": 1, "title": "x", "price": 1}, {"id": ""}]}'
        )

    httpserver.expect_request("/products").respond_with_handler(last_page_for_ever)
    with pytest.raises(ImportFailed, match="Pagination loop"):
        run_import(source)
    run = ImportRun.objects.get()
    assert (run.outcome, run.complete, len(requests)) == ("failed", False, 2)
    assert counts_of(run) == {"seen": 2, "created": 1, "invalid": 1}


def test_an_empty_feed_blocks_and_touches_nothing(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(1)])
    run_import(source)
    httpserver.clear()
    serve_rows(httpserver, [])
    run = run_import(source)
    assert (run.outcome, run.seen) == ("blocked", 0)
    assert Product.objects.filter(withdrawn_at=None).count() == 1


def test_an_empty_delta_is_an_ordinary_hour(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(1)])
    run_import(source)
    Source.objects.update(mode="delta")
    httpserver.clear()
    serve_rows(httpserver, [])
    assert run_import(source).outcome == "succeeded"


def test_a_row_that_is_missing_is_left_as_it_is(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(1), make_row(2)])
    run_import(source)
    httpserver.clear()
    serve_rows(httpserver, [make_row(1)])
    assert counts_of(run_import(source)) == {"seen": 1, "unchanged": 1}
    assert Product.objects.filter(withdrawn_at=None).count() == 2


def test_html_instead_of_json_fails_before_any_row(
    httpserver: HTTPServer, source: Source
) -> None:
    httpserver.expect_request("/products").respond_with_data(
        "<html>Maintenance</html>", content_type="text/html"
    )
    with pytest.raises(ImportFailed, match="login or maintenance page"):
        run_import(source)
    assert JobRun.objects.get().state == "failed"


def test_a_price_that_becomes_an_object_keeps_the_old_prices(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(1), make_row(2)])
    run_import(source)
    before = versions()
    httpserver.clear()
    serve_rows(httpserver, [make_row(n, price={"amount": "1"}) for n in (1, 2)])
    with pytest.raises(ImportFailed, match="Every row was refused"):
        run_import(source)
    assert versions() == before


def test_a_server_that_asks_for_a_day_defers_the_run(
    httpserver: HTTPServer, source: Source
) -> None:
    httpserver.expect_request("/products").respond_with_data(
        "", status=429, headers={"Retry-After": "86400"}
    )
    assert run_import(source).outcome == "deferred"
    assert JobRun.objects.get().state == "succeeded"


def test_a_missing_secret_is_named_and_no_request_is_made(
    httpserver: HTTPServer, source: Source
) -> None:
    Source.objects.update(auth_secret="env:DROVER_TEST_NO_SUCH_SECRET")
    with pytest.raises(ImportFailed, match="DROVER_TEST_NO_SUCH_SECRET is not set"):
        run_import(source)
    assert httpserver.log == []


RSS = '<rss xmlns:g="http://base.google.com/ns/1.0"><channel>{}</channel></rss>'
ITEM = "<item><g:id>{}</g:id><title>{}</title><g:price>{} EUR</g:price></item>"


@pytest.fixture
def feed(httpserver: HTTPServer) -> Source:
    text = RSS.format(
        "".join(ITEM.format(n, f"Product {n}", n) for n in range(1, 1501))
    )

    def answer(request: Request) -> Response:
        if request.headers.get("If-None-Match") == '"v1"':
            return Response("", 304)
        return Response(text, headers={"ETag": '"v1"'})

    httpserver.expect_request("/feed.xml").respond_with_handler(answer)
    return make_source(kind="google_merchant", url=httpserver.url_for("/feed.xml"))


def test_a_feed_that_did_not_change_is_not_read(feed: Source) -> None:
    assert counts_of(run_import(feed)) == {"seen": 1500, "created": 1500}
    run = run_import(feed)
    assert (run.outcome, run.seen, run.bytes_read) == ("not_modified", 0, 0)


def test_a_feed_is_read_again_when_a_row_waits_to_be_healed(feed: Source) -> None:
    run_import(feed)
    product = Product.objects.get(external_id="7")
    product.title = "Typo"
    edit(product, ["title"])
    assert counts_of(run_import(feed)) == {
        "seen": 1500,
        "updated": 1,
        "unchanged": 1499,
    }


def test_a_feed_is_read_again_when_its_source_was_edited(feed: Source) -> None:
    run_import(feed)
    feed.refresh_from_db()
    feed.mapping = {"brand": "title"}
    feed.save()
    assert counts_of(run_import(feed)) == {"seen": 1500, "updated": 1500}


def test_a_feed_cut_in_the_middle_keeps_what_was_whole(
    httpserver: HTTPServer,
) -> None:
    text = RSS.format("".join(ITEM.format(n, "x", n) for n in range(1, 2501)))[:-5000]
    httpserver.expect_request("/feed.xml").respond_with_data(text)
    source = make_source(kind="google_merchant", url=httpserver.url_for("/feed.xml"))
    with pytest.raises(ImportFailed, match="cut or no XML"):
        run_import(source)
    run = ImportRun.objects.get()
    assert (run.complete, counts_of(run)) == (False, {"seen": 2000, "created": 2000})
    source.refresh_from_db()
    assert source.etag == ""


def test_a_run_that_was_overtaken_writes_no_more_and_says_so(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(n) for n in range(1, 201)])

    class Overtaken:
        """A lease that another server takes after the first page."""

        def __init__(self, lease: Lease) -> None:
            self.run, self.fenced, self.check = lease.run, lease.fenced, lease.check

        def progress(self, **counts: int) -> None:
            if counts["created"]:
                JobLease.objects.update(fence=99)

    with pytest.raises(StaleFence), lease_of(source) as lease:
        import_source(source, Overtaken(lease))  # type: ignore[arg-type]
    run = ImportRun.objects.get()
    assert counts_of(run) == {"seen": 100, "created": 100}
    assert (run.outcome, Product.objects.count()) == ("", 100)
    assert "newer run" in run.error


def test_the_database_itself_refuses_counts_that_do_not_sum() -> None:
    with pytest.raises(IntegrityError, match="importrun_counts_sum"):
        ImportRun.objects.create(source=make_source(), mode="snapshot", seen=1)
