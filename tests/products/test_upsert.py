"""Upsert: what is written, what is not, and how one bad record hurts nobody else."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from products.models import Product, Source
from products.records import ProductRecord
from products.upsert import Outcomes, edit, upsert
from tests.products.factories import NOW, make_record, make_source, stored

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=1)


def put(source: Source, *records: ProductRecord, at: datetime = NOW) -> dict[str, str]:
    return put_all(source, records, at=at).by_id


def put_all(
    source: Source, records: Iterable[ProductRecord], at: datetime = NOW
) -> Outcomes:
    return upsert(source, records, fenced=transaction.atomic, fetched_at=at)


def versions() -> list[Any]:
    """The transaction that last wrote each row, and where the row lies."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, xmin, ctid FROM products_product ORDER BY id")
        return list(cursor.fetchall())


def test_new_changed_and_unchanged_are_told_apart() -> None:
    source = make_source()
    assert put(source, make_record("1"), make_record("2")) == {
        "1": "created",
        "2": "created",
    }
    outcomes = put(
        source, make_record("1"), make_record("2", stock=5), make_record("3"), at=LATER
    )
    assert outcomes == {"1": "unchanged", "2": "updated", "3": "created"}
    second = Product.objects.get(external_id="2")
    assert (second.stock, second.source_time) == (5, LATER)
    assert second.updated_at >= second.created_at


def test_the_same_records_again_write_nothing() -> None:
    source = make_source()
    records = [make_record(str(n)) for n in range(50)]
    put(source, *records)
    before = versions()
    assert set(put(source, *records, at=LATER).values()) == {"unchanged"}
    assert versions() == before


def test_every_field_of_a_record_arrives() -> None:
    source = make_source()
    full = make_record(
        "id,with\t\\odd 'signs'",
        price=Decimal("1234567.89"),
        sale_price=Decimal("0.10"),
        stock=-4,
        availability="preorder",
        sku="sku",
        gtin="40",
        brand="Ünïcode & <b>",
        category="a > b",
        url="https://a.test/?x=1&y=2",
        image_url="https://a.test/i.png",
        description='line\nline "quoted" \\N {1,2}',
        modified_at=NOW,
    )
    put(source, full)
    assert stored(source) == {full.external_id: full[1:]}
    other = make_record(full.external_id, title="x", price=None)
    put(source, other, at=LATER)
    assert stored(source) == {full.external_id: other[1:]}
    put(source, full, at=LATER)
    assert stored(source) == {full.external_id: full[1:]}


def bad_ones() -> list[ProductRecord]:
    return [
        make_record("nul", title="a\x00b"),
        make_record("surrogate", title="\ud800"),
        make_record("stock", stock=2**40),
        make_record("price", price=Decimal(10) ** 20),
        make_record("availability", availability="x" * 21),
    ]


def test_bad_records_are_named_and_all_others_are_saved() -> None:
    source = make_source()
    put(source, *(make_record(str(n), stock=1) for n in range(0, 100, 2)))
    good = [make_record(str(n)) for n in range(100)]
    result = put_all(source, [*good, *bad_ones()], at=LATER)
    assert {r.external_id for r in result.invalid} == {
        bad.external_id for bad in bad_ones()
    }
    assert sorted(result.by_id.values()) == ["created"] * 50 + ["updated"] * 50
    assert source.products.count() == 100
    assert all(r.code == "refused_by_database" and r.message for r in result.invalid)


def test_a_locked_field_stays_and_the_others_follow_the_feed() -> None:
    source = make_source()
    put(source, make_record("1"), make_record("2"))
    product = Product.objects.get(external_id="1")
    product.title, product.locked_fields = "Mine", ["title"]
    edit(product, ["title", "locked_fields"])
    record = make_record("1", title="Theirs", price=Decimal("1.00"))
    assert put(source, record, at=LATER) == {"1": "updated"}
    product.refresh_from_db()
    assert (product.title, product.price) == ("Mine", Decimal("1.0000"))
    assert put(source, record, make_record("2"), at=LATER) == {
        "1": "unchanged",
        "2": "unchanged",
    }


def test_a_locked_field_stays_on_the_path_of_a_single_record_too() -> None:
    source = make_source()
    put(source, make_record("1"))
    product = Product.objects.get()
    product.title, product.locked_fields = "Mine", ["title"]
    edit(product, ["title", "locked_fields"])
    put(source, make_record("1", title="Theirs", stock=8), at=LATER)
    product.refresh_from_db()
    assert (product.title, product.stock) == ("Mine", 8)


def test_an_editors_change_to_an_unlocked_field_is_healed_by_the_next_feed() -> None:
    source = make_source()
    records = [make_record("1"), make_record("2")]
    put(source, *records)
    product = Product.objects.get(external_id="1")
    product.title = "Typo"
    edit(product, ["title"])
    assert put(source, *records, at=LATER)["1"] == "updated"
    product.refresh_from_db()
    assert product.title == "Product 1"


def test_a_page_fetched_before_the_last_event_leaves_the_row_alone() -> None:
    source = make_source()
    put(source, make_record("1"), make_record("2"))
    Product.objects.update(source_time=LATER, content_hash=None)
    stale = [make_record("1", stock=1), make_record("2", stock=1)]
    assert set(put(source, *stale).values()) == {"unchanged"}
    assert set(put(source, *stale, at=LATER).values()) == {"updated"}


def test_a_withdrawn_product_that_is_back_is_restored_with_its_key() -> None:
    source = make_source()
    records = [make_record("1"), make_record("2")]
    put(source, *records)
    Product.objects.filter(external_id="1").update(withdrawn_at=NOW)
    key = Product.objects.get(external_id="1").pk
    assert put(source, *records, at=LATER) == {"1": "restored", "2": "unchanged"}
    assert Product.objects.get(pk=key).withdrawn_at is None


def test_two_sources_with_the_same_id_do_not_meet() -> None:
    one, other = make_source(), make_source(slug="other")
    put(one, make_record("1"), make_record("2"))
    assert put(other, make_record("1", title="x"), make_record("2")) == {
        "1": "created",
        "2": "created",
    }
    assert Product.objects.get(source=one, external_id="1").title == "Product 1"


titles = st.sampled_from(["a", "b", "a\x00"])
feed = st.dictionaries(st.sampled_from("pqrst"), titles, max_size=5)


@given(st.lists(feed, min_size=1, max_size=5))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_table_equals_a_model_after_any_feeds(feeds: list[dict[str, str]]) -> None:
    source = make_source(slug=f"s{Source.objects.count()}")
    model: dict[str, str] = {}
    for number, rows in enumerate(feeds):
        at = NOW + timedelta(minutes=number)
        result = put_all(source, [make_record(k, title=v) for k, v in rows.items()], at)
        for key, title in rows.items():
            if "\x00" in title:
                assert key in {reason.external_id for reason in result.invalid}
                continue
            expected = "created" if key not in model else "updated"
            assert result.by_id[key] == (
                "unchanged" if model.get(key) == title else expected
            )
            model[key] = title
    table = dict(source.products.values_list("external_id", "title"))
    assert table == model
