"""Bytes for human eyes never raise and never lose the difference that matters."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming import badges, payloads


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        pytest.param(b"plain", "plain", id="text"),
        pytest.param(b"a\x00b\x1b[31m", "a\\x00b\\x1b[31m", id="control characters"),
        pytest.param("\u202ereversed".encode(), "\\u202ereversed", id="bidi override"),
        pytest.param(b"\xff\xfe", "\\xff\\xfe", id="no text"),
        pytest.param("grün\n".encode(), "grün\n", id="more than ASCII"),
    ],
)
def test_raw_is_readable(value, raw):
    assert payloads.show(value).raw == raw


def test_null_and_empty_differ():
    assert payloads.show(None).is_null
    assert not payloads.show(b"").is_null


def test_pretty_is_for_json_alone():
    assert payloads.show(b'{"a":1}').pretty == '{\n  "a": 1\n}'
    assert payloads.show(b"{").pretty == ""
    assert payloads.show(b"[" * 100_000).pretty == ""


def test_a_large_value_is_cut():
    shown = payloads.show(b"x" * 100_000)
    assert shown.is_cut
    assert (shown.size, len(shown.raw)) == (100_000, payloads.MAX_SHOWN)
    assert len(shown.hex_lines) == payloads.MAX_HEX // 16


def test_hex_lines_have_offset_bytes_and_text():
    line = payloads.show(b'{"a"\x00').hex_lines[0]
    assert line.startswith("00000000  7b 22 61 22 00 ")
    assert line.endswith('  {"a"·')


def test_headers_keep_order_doubles_nulls_and_binary():
    binary = base64.b64encode(b"\x00\x01").decode()
    text = base64.b64encode(b"v").decode()
    stored: list[list[str | None]] = [
        ["a", text],
        ["a", None],
        ["b", binary],
        ["c", ""],
    ]
    assert payloads.headers(stored) == [
        ("a", "v", True),
        ("a", None, True),
        ("b", "00 01", False),
        ("c", "", True),
    ]


@pytest.mark.parametrize(
    ("ts_ms", "text"),
    [
        pytest.param(0, "1970-01-01T00:00:00.000+00:00 (0 ms)", id="the epoch"),
        pytest.param(-1, "1969-12-31T23:59:59.999+00:00 (-1 ms)", id="unknown"),
        pytest.param(2**63 - 1, f"{2**63 - 1} ms (in no calendar)", id="int64"),
    ],
)
def test_record_times(ts_ms, text):
    assert badges.record_time(ts_ms) == text


@given(st.binary(max_size=200))
def test_any_bytes_can_be_shown(value):
    shown = payloads.show(value)
    assert shown.size == len(value)
    assert payloads.key(value)
