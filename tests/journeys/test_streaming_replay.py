"""Journey: 1,000 events with 3 broken ones become 997 effects and 3 dead letters."""

import re

import orjson
import pytest
from django.contrib.auth.models import User
from django.test import Client

from products.models import Product, Source
from streaming.models import DeadLetter, HandledMessage, InboxMessage, Subscription
from tests.processes import Processes
from tests.streaming.produce import produce

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]
BROKEN = {100: b"{not json", 500: None, 900: b'{"schema": "product-change/1"}'}


def change(number: int, **over: object) -> bytes:
    fields = {
        "schema": "product-change/1",
        "source": "demo-shop",
        "external_id": str(number),
        "price": f"{number}.50",
        "currency": "EUR",
        "stock": number,
        "changed_at": "2026-11-30T10:00:00Z",
    }
    return orjson.dumps(fields | over)


def test_broken_events_are_found_fixed_and_replayed(processes: Processes) -> None:
    Source.objects.create(
        slug="demo-shop", name="Shop", kind="rest", url="http://x/", currency="EUR"
    )
    Subscription.objects.ensure("journey-changes", "drover")
    events = [
        (str(n).encode(), BROKEN[n] if n in BROKEN else change(n)) for n in range(1000)
    ]
    produce("journey-changes", events)
    processes.celery("worker", "-Q", "streaming", "-c", "2", "-l", "INFO")
    processes.manage("consume")

    processes.wait_for(
        lambda: HandledMessage.objects.count() == 997, timeout=60, what="997 effects"
    )
    assert Product.objects.count() == 997
    assert not InboxMessage.objects.filter(status=InboxMessage.Status.READY).exists()
    reasons = DeadLetter.objects.order_by("key").values_list("reason", flat=True)
    assert list(reasons) == ["bad_json", "tombstone", "missing_field"]

    letter = DeadLetter.objects.get(reason="missing_field")
    _fix_and_replay(letter, change(900, price="12.34"))
    processes.wait_for(
        lambda: Product.objects.filter(external_id="900").exists(),
        what="the replayed event",
    )
    processes.wait_for(
        lambda: DeadLetter.objects.get(pk=letter.pk).state == "replayed",
        what="the letter's end",
    )
    assert processes.stop("consume") == 0
    assert DeadLetter.objects.filter(state="new").count() == 2


def _fix_and_replay(letter: DeadLetter, payload: bytes) -> None:
    """As an operator does it, from the list of dead letters."""
    User.objects.create_superuser("op", password="op")
    client = Client()
    client.login(username="op", password="op")
    page = client.get("/admin/streaming/deadletter/").content.decode()
    found = re.search(rf'href="(/admin/streaming/deadletter/{letter.pk}/change/)', page)
    assert found
    detail = client.get(found[1]).content.decode()
    assert "missing_field" in detail
    answer = client.post(
        f"/admin/streaming/deadletter/{letter.pk}/edit/",
        {"payload": payload.decode()},
        follow=True,
    )
    assert answer.status_code == 200
