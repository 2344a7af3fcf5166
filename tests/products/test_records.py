"""Raw rows become records, or one reason; equal content has an equal hash."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from products.readers import READERS
from products.records import InvalidRow, mapping_for, parse, parse_fields
from products.tally import RAW_BYTES, Tally, as_text
from tests.products.factories import make_record, make_row

MAPPING = mapping_for(READERS["rest_json"].mapping, {})


def test_a_row_becomes_a_record() -> None:
    row = make_row(7, stock=3, meta={"barcode": "40"}, availabilityStatus="In Stock")
    record = parse(row, MAPPING, "EUR")
    assert record == make_record(
        "7", stock=3, gtin="40", availability="in_stock", price=Decimal("9.99")
    )


@pytest.mark.parametrize(
    ("row", "field", "code"),
    [
        pytest.param({"title": "x", "price": 1}, "external_id", "missing", id="no-id"),
        pytest.param(make_row(1, title=" "), "title", "missing", id="no-title"),
        pytest.param(make_row(1, price=None), "price", "missing", id="no-price"),
        pytest.param(make_row(1, price="NaN"), "price", "bad_price", id="nan"),
        pytest.param(make_row(1, sku="x" * 300), "sku", "too_long", id="sku"),
        pytest.param(make_row(1, stock=2**40), "stock", "bad_number", id="stock"),
        pytest.param(make_row(1, brand={"x": 1}), "brand", "wrong_type", id="drift"),
        pytest.param(["no", "object"], "", "not_an_object", id="list"),
    ],
)
def test_a_bad_row_says_which_field_and_why(row: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRow) as refused:
        parse(row, MAPPING, "EUR")
    assert (refused.value.field, refused.value.code) == (field, code)


def test_two_currencies_in_one_row_are_refused() -> None:
    with pytest.raises(InvalidRow, match=r"sale_price is in USD"):
        parse_fields({"price": "2 EUR", "sale_price": "1 USD"}, "EUR")


def test_equal_prices_hash_equally_however_they_are_written() -> None:
    one, other = make_record(price=Decimal("9.9")), make_record(price=Decimal("9.90"))
    assert one.content_hash() == other.content_hash()


@given(
    st.text(max_size=5), st.text(max_size=5), st.text(max_size=5), st.text(max_size=5)
)
def test_different_content_hashes_differently(a: str, b: str, c: str, d: str) -> None:
    one, other = make_record(title=a, sku=b), make_record(title=c, sku=d)
    assert (one == other) == (one.content_hash() == other.content_hash())


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        pytest.param({"prize": "x"}, "Unknown field 'prize'", id="unknown"),
        pytest.param({"price": 3}, "must be text", id="number"),
        pytest.param({"price": "a..b"}, "must be text", id="empty-step"),
        pytest.param({"title": None}, "needs title", id="required"),
        pytest.param([], "is an object", id="list"),
    ],
)
def test_a_bad_mapping_is_refused_with_its_reason(own: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        mapping_for(READERS["rest_json"].mapping, own)


rows = st.lists(
    st.fixed_dictionaries(
        {"id": st.none() | st.integers(1, 5), "title": st.just("x")},
        optional={"price": st.sampled_from([1, "2.50", "NaN", None, {"a": 1}])},
    ),
    max_size=12,
)


@given(st.lists(rows, max_size=4))
def test_every_row_has_exactly_one_outcome(pages: list[list[dict[str, Any]]]) -> None:
    tally = Tally(MAPPING, "EUR")
    for page in pages:
        records = tally.admit(page)
        tally.settle({record.external_id: "created" for record in records}, [])
    counts = tally.proved()
    assert counts["seen"] == sum(map(len, pages))
    assert counts["created"] == len(tally.written)


@given(st.recursive(st.text() | st.floats(), st.lists))
def test_the_kept_raw_text_is_always_storable(raw: Any) -> None:
    text = as_text({"row": raw, "bad": "\x00\ud800"})
    assert len(text.encode()) <= RAW_BYTES
    assert "\x00" not in text


def test_only_a_thousand_issues_are_kept_but_all_are_counted() -> None:
    tally = Tally(MAPPING, "EUR")
    tally.admit([{}] * 1500)
    assert (tally.counts["invalid"], len(tally.take_issues())) == (1500, 1000)
