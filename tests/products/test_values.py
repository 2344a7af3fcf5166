"""One raw value → one strict value, or the reason why not."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from products import values
from products.values import InvalidValue


@pytest.mark.parametrize(
    ("raw", "currency", "expected"),
    [
        pytest.param("9.99", "EUR", ("9.99", "EUR"), id="text"),
        pytest.param(Decimal("9.99"), "EUR", ("9.99", "EUR"), id="number"),
        pytest.param(9.99, "EUR", ("9.99", "EUR"), id="float-of-an-event"),
        pytest.param(10, "EUR", ("10.00", "EUR"), id="whole"),
        pytest.param("9.9900", "EUR", ("9.99", "EUR"), id="zeros-do-not-round"),
        pytest.param("15.00 USD", "EUR", ("15.00", "USD"), id="own-currency-wins"),
        pytest.param("1500.00", "JPY", ("1500", "JPY"), id="yen-with-zeros"),
        pytest.param("1.234", "KWD", ("1.234", "KWD"), id="three-decimals"),
        pytest.param(Decimal("1E+3"), "EUR", ("1000.00", "EUR"), id="exponent"),
        pytest.param("0", "EUR", ("0.00", "EUR"), id="free"),
        pytest.param("", "EUR", (None, ""), id="empty"),
        pytest.param(None, "EUR", (None, ""), id="null"),
    ],
)
def test_money(raw: Any, currency: str, expected: tuple[str | None, str]) -> None:
    amount, found = values.money(raw, currency)
    assert (amount if amount is None else str(amount), found) == expected


@pytest.mark.parametrize(
    ("raw", "currency", "code"),
    [
        pytest.param("NaN", "EUR", "bad_price", id="nan-text"),
        pytest.param(Decimal("NaN"), "EUR", "bad_price", id="nan"),
        pytest.param(float("inf"), "EUR", "bad_price", id="infinity"),
        pytest.param("1_000", "EUR", "bad_price", id="underscore"),
        pytest.param("1e3", "EUR", "bad_price", id="exponent-text"),
        pytest.param("1..23", "EUR", "bad_price", id="two-points"),
        pytest.param("12,50", "EUR", "bad_price", id="comma-is-not-guessed"),
        pytest.param("١٢", "EUR", "bad_price", id="arabic-digits"),
        pytest.param("USD 15", "EUR", "bad_price", id="currency-first"),
        pytest.param("$1495", "EUR", "bad_price", id="sign"),
        pytest.param(Decimal("1E+999999999"), "EUR", "bad_price", id="huge-exponent"),
        pytest.param("9" * 13, "EUR", "bad_price", id="too-many-digits"),
        pytest.param("-1", "EUR", "negative", id="negative"),
        pytest.param("9.99995", "EUR", "too_many_decimals", id="would-round"),
        pytest.param("9.5", "JPY", "too_many_decimals", id="yen-has-none"),
        pytest.param("9.99", "", "no_currency", id="no-currency"),
        pytest.param({"amount": "9.99"}, "EUR", "wrong_type", id="object"),
        pytest.param(True, "EUR", "wrong_type", id="bool"),
    ],
)
def test_money_refused(raw: Any, currency: str, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        values.money(raw, currency)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(5, 5, id="number"),
        pytest.param("5", 5, id="text"),
        pytest.param(Decimal("5.0"), 5, id="five-point-zero"),
        pytest.param(-3, -3, id="oversold"),
        pytest.param("", None, id="empty"),
        pytest.param(2**31 - 1, 2**31 - 1, id="largest"),
    ],
)
def test_count(raw: Any, expected: int | None) -> None:
    assert values.count(raw) == expected


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(2**40, "bad_number", id="2^40"),
        pytest.param(2**31, "out_of_range", id="one-too-many"),
        pytest.param("5.5", "bad_number", id="half"),
        pytest.param("parent", "bad_number", id="word"),
        pytest.param(True, "wrong_type", id="bool"),
    ],
)
def test_count_refused(raw: Any, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        values.count(raw)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param("a\x00b", "bad_text", id="nul"),
        pytest.param("half \ud800", "bad_text", id="lone-surrogate"),
        pytest.param("x" * 11, "too_long", id="too-long"),
        pytest.param(["x"], "wrong_type", id="list"),
        pytest.param(False, "wrong_type", id="bool"),
    ],
)
def test_text_refused(raw: Any, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        values.text(raw, 10)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(None, "missing", id="none"),
        pytest.param("  ", "missing", id="blank"),
        pytest.param("a\x1fb", "bad_text", id="the-separator-of-the-hash-read"),
        pytest.param("x" * 201, "too_long", id="too-long"),
        pytest.param(Decimal("1.5"), "wrong_type", id="fraction"),
    ],
)
def test_identifier_refused(raw: Any, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        values.identifier(raw)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param("In Stock", "in_stock", id="old-feed"),
        pytest.param("in_stock", "in_stock", id="google"),
        pytest.param("outofstock", "out_of_stock", id="woo"),
        pytest.param(None, "", id="null"),
    ],
)
def test_availability(raw: Any, expected: str) -> None:
    assert values.availability(raw) == expected


def test_an_unknown_availability_is_refused_not_guessed() -> None:
    with pytest.raises(InvalidValue, match="'gone fishing' is none of in_stock"):
        values.availability("gone fishing")


@pytest.mark.parametrize(
    "raw", ["javascript:alert(1)", "/p/1", "ftp://a/b", "http://["]
)
def test_only_web_addresses_are_stored(raw: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        values.web_address(raw)
    assert refused.value.code == "bad_url"


@pytest.mark.parametrize(
    "raw",
    ["2026-03-01T12:00:00Z", "2026-03-01T08:00:00-04:00", "2026-03-01T12:00:00+00"],
)
def test_times_become_utc(raw: str) -> None:
    assert values.moment(raw) == datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param("2026-03-01T12:00:00", "no_timezone", id="naive"),
        pytest.param("yesterday", "bad_time", id="word"),
        pytest.param("0001-01-01T00:00:00+14:00", "bad_time", id="before-year-one"),
    ],
)
def test_times_refused(raw: str, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        values.moment(raw)
    assert refused.value.code == code


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(anything)
def test_no_value_breaks_a_parser(raw: Any) -> None:
    parsers = (
        values.identifier,
        values.count,
        values.availability,
        values.web_address,
        values.moment,
        values.currency_code,
        lambda value: values.money(value, "EUR"),
        lambda value: values.text(value, 100),
    )
    for parser in parsers:
        try:
            parser(raw)
        except InvalidValue as refused:
            str(refused).encode()


@given(st.decimals(min_value=0, max_value=10**11, places=2))
def test_every_price_of_a_currency_survives(amount: Decimal) -> None:
    assert values.money(f"{amount} EUR", "") == (amount, "EUR")
