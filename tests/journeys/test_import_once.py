"""From the schedule to the catalogue: several beats and workers, one import per tick."""

import json
from datetime import UTC, datetime

import pytest
from django.db import connection
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from products.models import ImportRun, Product, Source
from products.tasks import import_products
from project.jobs.models import JobRun, State
from project.jobs.schedules import ensure_interval
from project.jobs.scheduling import TICK, TRIGGER
from tests.processes import Processes

pytestmark = pytest.mark.journey

PRODUCTS = 250
PAGE = 100
PAGES = 3


def answer(request: Request) -> Response:
    skip, limit = int(request.args["skip"]), int(request.args["limit"])
    numbers = range(skip, min(skip + min(limit, PAGE), PRODUCTS))
    rows = [
        {"id": n + 1, "title": f"Product {n + 1}", "price": 10.5, "stock": n}
        for n in numbers
    ]
    body = {"products": rows, "total": PRODUCTS, "skip": skip, "limit": len(rows)}
    return Response(json.dumps(body), content_type="application/json")


@pytest.fixture
def source(processes: Processes, httpserver: HTTPServer) -> Source:
    httpserver.expect_request("/products").respond_with_handler(answer)
    return Source.objects.create(
        slug="far-shop",
        name="Far shop",
        kind="rest_json",
        url=httpserver.url_for("/products"),
        currency="EUR",
        options={"limit": PAGE},
    )


def product_versions() -> set[tuple[int, int]]:
    """Each row with the transaction that wrote it last."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, xmin::text::bigint FROM products_product")
        return set(cursor.fetchall())


def succeeded() -> int:
    imports = JobRun.objects.filter(job_key__startswith="import-products")
    return imports.filter(state=State.SUCCEEDED).count()


def test_two_beats_and_two_workers_run_each_tick_once(
    processes: Processes, source: Source, httpserver: HTTPServer
) -> None:
    ensure_interval("far shop", import_products.name, 3, {"source_id": source.pk})
    for number in (1, 2):
        processes.celery(
            *("worker", "--queues=jobs", "--concurrency=1", "--without-gossip"),
            *("--without-mingle", f"--hostname=worker{number}@%h", "--loglevel=info"),
            name=f"worker-{number}",
        )
        processes.celery("beat", "--pidfile=", name=f"beat-{number}")
    processes.wait_for(lambda: succeeded() >= 1, timeout=40, what="the first run")
    assert Product.objects.count() == PRODUCTS
    after_first = product_versions()
    processes.wait_for(lambda: succeeded() >= 3, timeout=30, what="two more runs")
    for number in (1, 2):
        processes.stop(f"beat-{number}")
    processes.wait_for(
        lambda: not JobRun.objects.filter(state=State.RUNNING).exists(),
        what="the end of the last run",
    )

    first, *later = ImportRun.objects.order_by("pk")
    assert (first.seen, first.created) == (PRODUCTS, PRODUCTS)
    assert {(run.seen, run.unchanged) for run in later} == {(PRODUCTS, PRODUCTS)}
    assert product_versions() == after_first
    ticks = list(JobRun.objects.values_list("job_key", "tick"))
    assert len(ticks) == len(set(ticks))
    assert len(httpserver.log) == PAGES * ImportRun.objects.count()
    losers = "".join(processes.log(f"worker-{number}") for number in (1, 2))
    assert "another server has" in losers


def test_ten_contenders_cost_one_run_s_requests(
    processes: Processes, source: Source, httpserver: HTTPServer
) -> None:
    tick = datetime.now(UTC).replace(microsecond=0)
    for _ in range(10):
        import_products.apply_async(
            kwargs={"source_id": source.pk},
            headers={TICK: tick.isoformat(), TRIGGER: "schedule"},
        )
    processes.celery(
        *("worker", "--queues=jobs", "--concurrency=10", "--loglevel=info"),
        *("--without-gossip", "--without-mingle"),
        name="worker",
    )
    processes.wait_for(
        lambda: processes.log("worker").count("another server has") == 9,
        timeout=40,
        what="nine losers",
    )
    processes.wait_for(lambda: succeeded() == 1, what="one winner")
    assert JobRun.objects.count() == 1
    assert len(httpserver.log) == PAGES
    assert Product.objects.count() == PRODUCTS
