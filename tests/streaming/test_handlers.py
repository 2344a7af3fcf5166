"""The shipped handlers act on products and devices, and say why when they cannot."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from products.models import Product, Source
from streaming import lanes
from streaming.handlers import HANDLERS
from streaming.models import DeadLetter, HandledMessage
from tests.streaming.builders import arrive, lanes_of_ready, make_place, make_record
from tracking.models import Device, Fleet

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC).replace(microsecond=0)


def handle(*events: dict[str, object]) -> list[str]:
    """The outcomes, in order."""
    place = make_place()
    values = [json.dumps(event).encode() for event in events]
    arrive(place, [make_record(n, v) for n, v in enumerate(values)], HANDLERS)
    lanes.drain(lanes_of_ready(), HANDLERS)
    rows = HandledMessage.objects.order_by("offset")
    return list(rows.values_list("outcome", flat=True))


def change(**over: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "schema": "product-change/1",
        "source": "shop",
        "external_id": "42",
        "changed_at": NOW.isoformat(),
    }
    return fields | over


def fix(device: object, **over: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "schema": "fix/1",
        "device": str(device),
        "lat": 53.4,
        "lon": -2.9,
        "fixed_at": NOW.isoformat(),
    }
    return fields | over


@pytest.fixture
def source():
    return Source.objects.create(
        slug="shop", name="Shop", kind="rest", url="http://x/", currency="EUR"
    )


@pytest.fixture
def device():
    fleet = Fleet.objects.create(name="Pipeline")
    return Device.objects.create(fleet=fleet, name="Ferry")


def test_a_product_change_sets_price_and_stock_and_leaves_the_rest(source):
    Product.objects.create(source=source, external_id="42", title="Kept", stock=1)
    outcomes = handle(change(price="9.90", currency="EUR", stock=7), change(stock=6))
    assert outcomes == ["updated", "updated"]
    product = Product.objects.get()
    assert (str(product.price), product.stock, product.title) == ("9.9000", 6, "Kept")


def test_an_event_older_than_the_row_changes_nothing(source):
    older = (NOW - timedelta(hours=1)).isoformat()
    outcomes = handle(change(stock=5), change(stock=99, changed_at=older))
    assert outcomes == ["created", "outdated"]
    assert Product.objects.get().stock == 5


def test_a_source_that_nobody_knows_is_a_dead_letter(db):
    assert handle(change(stock=5)) == []
    letter = DeadLetter.objects.get()
    assert letter.reason == "unknown_source"
    assert "'shop'" in letter.detail


def test_an_event_from_the_future_is_a_dead_letter(source):
    later = (NOW + timedelta(days=2)).isoformat()
    assert handle(change(stock=5, changed_at=later)) == []
    assert DeadLetter.objects.get().reason == "future"


def test_a_fix_goes_through_the_same_ingest_as_a_phones(device):
    assert handle(fix(device.pk)) == ["accepted"]


def test_the_same_fix_again_is_a_duplicate(device):
    assert handle(fix(device.pk), fix(device.pk)) == ["accepted", "duplicate"]


@pytest.mark.parametrize(
    "name", ["0", "999999", "nobody", "²", "9" * 40], ids=lambda name: name[:8]
)
def test_a_device_that_nobody_knows_is_a_dead_letter(name):
    assert handle(fix(name)) == []
    assert DeadLetter.objects.get().reason == "unknown_device"
