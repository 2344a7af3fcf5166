"""The admin: pages render, Run now queues, and an editor's change is kept."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django_celery_beat.models import PeriodicTask
from pytest_httpserver import HTTPServer

from products.models import ImportRun, Product, RowIssue, Source
from project.jobs.models import JobRun
from project.redis import sync_client
from tests.products.factories import make_row, make_source, run_import, serve_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(httpserver: HTTPServer) -> Source:
    """A source with one import behind it: two products, one refused row."""
    serve_rows(httpserver, [make_row(1), make_row(2), make_row(3, price="<b>NaN")])
    source = make_source(url=httpserver.url_for("/products"))
    run_import(source)
    return source


def pages() -> list[tuple[str, type[Any]]]:
    models = (Source, Product, ImportRun, RowIssue)
    return [(f"products_{m._meta.model_name}", m) for m in models]


@pytest.mark.parametrize(("name", "model"), pages())
def test_every_page_renders(
    admin_client: Client, source: Source, name: str, model: type[Any]
) -> None:
    listing = admin_client.get(reverse(f"admin:{name}_changelist"))
    assert listing.status_code == 200
    pk = model.objects.order_by("pk")[0].pk
    page = admin_client.get(reverse(f"admin:{name}_change", args=[pk]))
    assert page.status_code == 200
    assert b"<b>NaN" not in page.content


@pytest.mark.parametrize("model", ["source", "product", "importrun", "rowissue"])
def test_lists_cost_the_same_however_long_they_are(
    admin_client: Client,
    source: Source,
    django_assert_max_num_queries: Any,
    model: str,
) -> None:
    for number in range(5):
        other = make_source(slug=f"s{number}", url=source.url)
        run_import(other)
    with django_assert_max_num_queries(9):
        admin_client.get(reverse(f"admin:products_{model}_changelist"))


def test_the_run_list_says_what_happened(admin_client: Client, source: Source) -> None:
    html = admin_client.get(reverse("admin:products_importrun_changelist")).content
    text = re.sub(r"<[^>]+>", "", html.decode())
    assert "! partial" in text
    assert "3 rows 2 created 1 invalid" in text


def queued_messages() -> int:
    with sync_client("broker") as broker:
        return int(broker.llen("jobs"))


@pytest.mark.django_db(transaction=True)
def test_run_now_queues_once_however_often_it_is_pressed(
    admin_client: Client, source: Source
) -> None:
    url = reverse("admin:products_source_run", args=[source.pk])
    for _ in range(2):
        page = admin_client.post(url, follow=True)
        assert "Shop is queued." in page.content.decode()
    assert f"?source__id__exact={source.pk}" in page.content.decode()
    run = JobRun.objects.get(state="queued")
    assert run.job_key == f"import-products:source_id={source.pk}"
    assert queued_messages() >= 1


@pytest.mark.django_db(transaction=True)
def test_run_now_is_an_action_too(admin_client: Client, source: Source) -> None:
    url = reverse("admin:products_source_changelist")
    data = {"action": "run_now", "_selected_action": [source.pk]}
    assert "is queued" in admin_client.post(url, data, follow=True).content.decode()


def test_run_now_is_no_link_and_needs_its_permission(
    client: Client, source: Source
) -> None:
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_source"))
    client.force_login(user)
    url = reverse("admin:products_source_run", args=[source.pk])
    assert client.get(url).status_code == 405
    assert client.post(url).status_code == 403
    page = client.get(reverse("admin:products_source_change", args=[source.pk]))
    assert b"Run now" not in page.content
    assert not JobRun.objects.filter(state="queued").exists()


def test_a_disabled_source_is_not_queued(admin_client: Client, source: Source) -> None:
    Source.objects.update(enabled=False)
    url = reverse("admin:products_source_run", args=[source.pk])
    page = admin_client.post(url, follow=True)
    assert "is disabled" in page.content.decode()
    assert not JobRun.objects.filter(state="queued").exists()


FORM = {
    "name": "New shop",
    "slug": "new-shop",
    "kind": "rest_json",
    "url": "https://shop.test/products",
    "enabled": "on",
    "currency": "eur",
    "mode": "snapshot",
    "options": "{}",
    "mapping": "{}",
    "auth_header": "Authorization",
    "auth_secret": "",
}


def test_a_new_source_is_imported_every_hour(admin_client: Client) -> None:
    response = admin_client.post(reverse("admin:products_source_add"), FORM)
    assert response.status_code == 302
    source = Source.objects.get()
    assert source.currency == "EUR"
    schedule = PeriodicTask.objects.get(name="import new-shop")
    assert schedule.interval.every == 3600
    assert schedule.task == "products.import_products"
    assert json.loads(schedule.kwargs) == {"source_id": source.pk}
    admin_client.post(
        reverse("admin:products_source_delete", args=[source.pk]), {"post": "yes"}
    )
    assert not PeriodicTask.objects.filter(name="import new-shop").exists()


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        pytest.param("url", "file:///etc/passwd", "no http or https", id="url"),
        pytest.param("currency", "e1", "no code like EUR", id="currency"),
        pytest.param("options", '{"limit": 0}', "greater than or equal", id="options"),
        pytest.param("mapping", '{"prize": "x"}', "Unknown field", id="mapping"),
        pytest.param("options", '{"items": "\\u0000"}', "a NUL", id="nul"),
        pytest.param("mapping", '{"title": "\\ud800"}', "a NUL", id="half-letter"),
        pytest.param("mapping", '{"title": NaN}', "no JSON number", id="nan"),
        pytest.param(
            "mapping", '{"a":' * 3000 + "1" + "}" * 3000, "too deep", id="deep"
        ),
        pytest.param("options", "9" * 5000, "No usable JSON", id="digits"),
        pytest.param("url", "http://x.test:99999/", "no address", id="port"),
        pytest.param("auth_header", "X Key", "header", id="header"),
        pytest.param("auth_secret", "hunter2", "env:NAME", id="secret"),
        pytest.param("auth_secret", "env:SECRET_KEY", "never sent", id="own-secret"),
    ],
)
def test_a_source_that_could_not_run_is_refused_at_its_field(
    admin_client: Client, field: str, value: str, reason: str
) -> None:
    page = admin_client.post(
        reverse("admin:products_source_add"), FORM | {field: value}
    )
    assert reason in page.content.decode()
    assert list(page.context["adminform"].form.errors) == [field]


def test_an_editor_changes_and_locks_a_field(
    admin_client: Client, source: Source
) -> None:
    product = Product.objects.get(external_id="1")
    url = reverse("admin:products_product_change", args=[product.pk])
    form = admin_client.get(url).context["adminform"].form
    data = {k: v for k, v in form.initial.items() if v is not None}
    data |= {"title": "Mine", "locked_fields": ["title"]}
    response = admin_client.post(url, data)
    assert response.status_code == 302
    run_import(source)
    product.refresh_from_db()
    assert (product.title, product.content_hash is None) == ("Mine", False)
