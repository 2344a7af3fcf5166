"""One event changes one product, unless the product is newer than the event."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from products.models import Product, Source
from products.records import InvalidRow
from products.upsert import apply_change, edit, upsert
from tests.products.factories import NOW, make_record, make_source

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def source() -> Source:
    source = make_source()
    upsert(source, [make_record("1")], fenced=transaction.atomic, fetched_at=NOW)
    return source


def test_a_newer_event_updates_and_the_next_feed_may_heal(source: Source) -> None:
    assert apply_change("shop", "1", {"price": 5.25, "stock": 3}, LATER) == "updated"
    product = Product.objects.get()
    assert (product.price, product.stock) == (Decimal("5.25"), 3)
    assert (product.source_time, product.content_hash) == (LATER, None)
    records = [make_record("1"), make_record("2")]
    after = LATER + timedelta(hours=1)
    result = upsert(source, records, fenced=transaction.atomic, fetched_at=after)
    assert result.by_id["1"] == "updated"


def test_an_older_event_is_refused(source: Source) -> None:
    before = NOW - timedelta(seconds=1)
    assert apply_change("shop", "1", {"stock": 3}, before) == "outdated"
    assert Product.objects.get().stock is None


def test_an_event_that_changes_nothing_still_keeps_older_ones_out(
    source: Source,
) -> None:
    assert apply_change("shop", "1", {"price": "9.99"}, LATER) == "unchanged"
    assert Product.objects.get().content_hash is not None
    assert apply_change("shop", "1", {"price": "1.00"}, NOW) == "outdated"


def test_the_same_event_twice_has_its_effect_once(source: Source) -> None:
    assert apply_change("shop", "1", {"stock": 3}, LATER) == "updated"
    assert apply_change("shop", "1", {"stock": 3}, LATER) == "unchanged"


def test_an_event_for_an_unknown_product_makes_it(source: Source) -> None:
    assert apply_change("shop", "9", {"price": "2.00"}, NOW) == "created"
    product = Product.objects.get(external_id="9")
    assert (product.title, product.currency) == ("9", "EUR")


def test_an_unknown_source_is_an_answer_not_an_error() -> None:
    assert apply_change("nowhere", "1", {"stock": 1}, NOW) == "unknown_source"


def test_a_locked_field_is_left_alone(source: Source) -> None:
    product = Product.objects.get()
    product.locked_fields = ["price"]
    edit(product, ["locked_fields"])
    assert apply_change("shop", "1", {"price": "1.00"}, LATER) == "unchanged"


@pytest.mark.parametrize(
    ("fields", "key", "ahead", "code"),
    [
        pytest.param({"prize": 1}, "1", 0, "unknown_field", id="unknown-field"),
        pytest.param({"price": "NaN"}, "1", 0, "bad_price", id="price"),
        pytest.param({"title": ""}, "1", 0, "missing", id="title"),
        pytest.param({"stock": 1}, "", 0, "missing", id="no-id"),
        pytest.param({"stock": 1}, "1", 3600, "future", id="future"),
    ],
)
def test_a_bad_event_says_why(
    source: Source, fields: dict[str, Any], key: str, ahead: int, code: str
) -> None:
    when = datetime.now(UTC) + timedelta(seconds=ahead)
    with pytest.raises(InvalidRow) as refused:
        apply_change("shop", key, fields, when)
    assert refused.value.code == code
