"""`manage.py import_products`: clear words, exit codes, and a dry run without effect."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_httpserver import HTTPServer

from products.models import ImportRun, Product, Source
from project.jobs.models import JobRun
from tests.products.factories import lease_of, make_row, make_source, serve_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(httpserver: HTTPServer) -> Source:
    return make_source(url=httpserver.url_for("/products"))


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("import_products", *arguments, stdout=out)
    return out.getvalue()


def test_an_import_prints_its_counts(httpserver: HTTPServer, source: Source) -> None:
    serve_rows(httpserver, [make_row(n) for n in range(1, 4)])
    assert run("shop") == "shop: succeeded. 3 seen: 3 created.\n"
    assert JobRun.objects.get().trigger == "manual"


def test_json_is_one_document_with_a_schema(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(1), make_row(2, price="NaN")])
    report = json.loads(run("shop", "--format=json"))
    assert report["schema"] == "drover.import/1"
    assert report["counts"]["created"] == 1
    assert report["issues"][0]["code"] == "bad_price"
    assert report["run"] == ImportRun.objects.get().pk


def failing(*arguments: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    return error.value.returncode, str(error.value)


def test_an_unknown_source_lists_the_known_ones(source: Source) -> None:
    assert failing("shpo") == (1, "No source 'shpo'. Known sources: shop.")


def test_a_source_that_is_down_is_exit_code_1(
    httpserver: HTTPServer, source: Source
) -> None:
    httpserver.expect_request("/products").respond_with_data("", status=404)
    code, message = failing("shop")
    assert (code, "answered 404" in message) == (1, True)


def test_refused_rows_are_exit_code_3_when_asked_for(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(1), make_row(2, price="NaN")])
    assert failing("shop", "--fail-on-errors")[0] == 3


@pytest.mark.django_db(transaction=True)
def test_a_source_that_is_being_imported_is_exit_code_75(
    httpserver: HTTPServer, source: Source
) -> None:
    with lease_of(source):
        code, message = failing("shop")
    assert code == 75
    assert "Try later" in message
    assert httpserver.log == []


def test_a_dry_run_shows_the_differences_and_leaves_no_trace(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(n) for n in range(1, 4)])
    run("shop")
    httpserver.clear()
    rows = [make_row(1, price=8), make_row(2), make_row(9), make_row(5, price="NaN")]
    serve_rows(httpserver, rows)
    before = _everything()
    text = run("shop", "--dry-run")
    assert text.splitlines() == [
        "  1 price: 9.99 → 8.00",
        "  row 4 refused: price: 'NaN' is no price like 9.99.",
        "Dry run, nothing was written: shop: partial. "
        "4 seen: 1 created, 1 updated, 1 unchanged, 1 invalid.",
    ]
    report = json.loads(run("shop", "--dry-run", "--format=json"))
    assert report["changes"] == [
        {"external_id": "1", "field": "price", "old": "9.99", "new": "8.00"}
    ]
    assert report["created"] == ["9"]
    assert _everything() == before


def _everything() -> list[Any]:
    models = (Source, Product, ImportRun, JobRun)
    return [list(model.objects.order_by("pk").values()) for model in models]


def test_a_dry_run_works_while_an_import_is_running(
    httpserver: HTTPServer, source: Source
) -> None:
    serve_rows(httpserver, [make_row(1)])
    with lease_of(source):
        assert "1 created" in run("shop", "--dry-run")


def test_a_dry_run_of_a_broken_source_fails_like_the_real_one(
    httpserver: HTTPServer, source: Source
) -> None:
    httpserver.expect_request("/products").respond_with_data("<html>")
    assert failing("shop", "--dry-run")[0] == 1
