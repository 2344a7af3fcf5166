"""Whatever the bytes are: an event, or InvalidMessage with a stable reason."""

import contextlib
import json
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.handlers import HANDLERS
from streaming.schemas import MAX_BYTES, Event, InvalidMessage, decode

CHANGE = {
    "schema": "product-change/1",
    "event_id": "e-1",
    "source": "demo-shop",
    "external_id": "42",
    "price": "19.90",
    "currency": "EUR",
    "stock": 7,
    "changed_at": "2026-12-01T10:00:00Z",
}
FIX = {
    "schema": "fix/1",
    "device": "3",
    "lat": 53.4,
    "lon": -2.98,
    "fixed_at": "2026-12-01T10:00:00+01:00",
    "speed_mps": 4,
}
HEAD = b'{"schema":"product-change/1","source":"s","external_id":"1",'
TIME = b'"changed_at":"2026-12-01T10:00:00Z"}'


def change(**over):
    return json.dumps(CHANGE | over).encode()


def without(name):
    return json.dumps({k: v for k, v in CHANGE.items() if k != name}).encode()


def event_of(value: bytes) -> Any:
    return decode(value, HANDLERS)


def test_a_product_change_becomes_an_event():
    event = event_of(change())
    assert event.price == Decimal("19.90")
    assert event.changed_at == datetime(2026, 12, 1, 10, tzinfo=UTC)


def test_a_fix_becomes_an_event():
    event = event_of(json.dumps(FIX).encode())
    assert (event.device, event.lat, event.speed_mps) == ("3", 53.4, 4.0)


def test_a_number_with_a_fraction_keeps_its_digits():
    event = event_of(HEAD + b'"price":0.1,' + TIME)
    assert event.price == Decimal("0.1")


def test_names_that_no_model_knows_are_ignored():
    assert event_of(change(colour="red", nested={"a": [1]})).stock == 7


HOSTILE = [
    pytest.param(None, "tombstone", id="null value"),
    pytest.param(b"", "empty", id="no bytes"),
    pytest.param(b" " * (MAX_BYTES + 1), "too_large", id="too many bytes"),
    pytest.param(b"{", "bad_json", id="half a document"),
    pytest.param(change() + b"{}", "bad_json", id="two documents"),
    pytest.param(b"[" * 1100 + b"]" * 1100, "too_deep", id="1100 deep"),
    pytest.param(b"[" * 100_000 + b"]" * 100_000, "too_deep", id="100k deep"),
    pytest.param(
        HEAD + b'"x":' + b"[" * 40 + b"]" * 40 + b"," + TIME,
        "too_deep",
        id="40 deep in an unknown field",
    ),
    pytest.param(HEAD + b'"price":NaN,' + TIME, "bad_number", id="NaN"),
    pytest.param(HEAD + b'"x":Infinity,' + TIME, "bad_number", id="Infinity"),
    pytest.param(HEAD + b'"price":1e200000,' + TIME, "bad_number", id="1e200000"),
    pytest.param(
        HEAD + b'"price":1e9999999999999999999,' + TIME,
        "bad_number",
        id="an exponent that is no Decimal",
    ),
    pytest.param(
        HEAD + b'"price":1e-9999999999999999999,' + TIME,
        "bad_number",
        id="a negative exponent that is no Decimal",
    ),
    pytest.param(
        HEAD + b'"stock":' + b"9" * 5000 + b"," + TIME,
        "bad_number",
        id="5000-digit integer",
    ),
    pytest.param(change(external_id="a\x00b"), "bad_text", id="null character"),
    pytest.param(change(**{"a\x00": 1}), "bad_text", id="null character in a name"),
    pytest.param(change(external_id="\ud800"), "bad_text", id="lone surrogate"),
    pytest.param(HEAD + b'"source":"t",' + TIME, "duplicate_name", id="duplicate name"),
    pytest.param(b"\xef\xbb\xbf" + change(), "bad_encoding", id="byte order mark"),
    pytest.param(
        change().decode().encode("utf-16"), "bad_encoding", id="UTF-16 with its mark"
    ),
    pytest.param(
        change().decode().encode("utf-16-le"), "bad_json", id="UTF-16 without mark"
    ),
    pytest.param(b"\xff\xfe\xfd", "bad_encoding", id="no text at all"),
    pytest.param(b'"text"', "not_an_object", id="a string"),
    pytest.param(b"[1]", "not_an_object", id="an array"),
    pytest.param(b"{}", "no_schema", id="no schema"),
    pytest.param(b'{"schema":["x"]}', "no_schema", id="schema of a wrong type"),
    pytest.param(b'{"schema":"x/1"}', "unknown_schema", id="unknown schema"),
    pytest.param(without("external_id"), "missing_field", id="missing field"),
    pytest.param(change(price=-1), "bad_value", id="negative price"),
    pytest.param(change(price="1.23456"), "bad_value", id="too many decimals"),
    pytest.param(change(stock=2**31), "bad_value", id="stock out of range"),
    pytest.param(change(stock=True), "bad_value", id="a stock of true"),
    pytest.param(
        json.dumps(FIX | {"lat": True}).encode(), "bad_value", id="latitude true"
    ),
    pytest.param(change(stock=1.5), "bad_value", id="half a piece"),
    pytest.param(
        change(changed_at="2026-12-01T10:00:00"), "bad_value", id="time without zone"
    ),
    pytest.param(change(changed_at="yesterday"), "bad_value", id="no time"),
    pytest.param(change(changed_at=10**30), "bad_value", id="time after the end"),
    pytest.param(json.dumps(FIX | {"lat": 91}).encode(), "bad_value", id="latitude 91"),
]


@pytest.mark.parametrize(("value", "reason"), HOSTILE)
def test_hostile_bytes_have_a_reason(value, reason):
    with pytest.raises(InvalidMessage) as caught:
        decode(value, HANDLERS)
    assert caught.value.reason == reason
    assert str(caught.value)


def test_many_names_with_one_twice_cost_no_more_than_many_names():
    names = ",".join(f'"{number:x}":1' for number in range(20_000))
    started = time.monotonic()
    with pytest.raises(InvalidMessage, match="comes twice"):
        decode(f'{{{names},"4e1f":2}}'.encode(), HANDLERS)
    # Quadratic it was half a minute, longer than a consumer may be silent.
    assert time.monotonic() - started < 2


def test_what_nobody_thought_of_is_an_invalid_message_too():
    class Surprising:
        @property
        def model(self) -> type[Event]:
            raise ZeroDivisionError("not foreseen")

    with pytest.raises(InvalidMessage, match="ZeroDivisionError") as caught:
        decode(b'{"schema":"x/1"}', {"x/1": Surprising()})
    assert caught.value.reason == "unreadable"


@pytest.mark.parametrize("value", ['{"broken', '{"a": "\n"}', "{\"a\": '1'}"])
def test_bad_json_says_once_where(value):
    with pytest.raises(InvalidMessage, match=r"at line \d column \d\.$") as caught:
        event_of(value.encode())
    assert "at at" not in str(caught.value)


def test_a_fault_names_its_place():
    with pytest.raises(InvalidMessage) as caught:
        decode(change(price=-1), HANDLERS)
    assert caught.value.path == "$.price"


@given(st.binary(max_size=300))
def test_any_bytes_end_in_an_event_or_in_invalid_message(value):
    with pytest.raises(InvalidMessage):
        decode(value, HANDLERS)


@given(st.dictionaries(st.text(max_size=12), st.integers() | st.text() | st.none()))
def test_any_object_around_the_schema_does_too(fields):
    value = json.dumps(CHANGE | fields | {"schema": "product-change/1"}).encode()
    with contextlib.suppress(InvalidMessage):
        assert decode(value, HANDLERS).schema_ == "product-change/1"
