"""One raw value → one strict value, or InvalidValue with the reason. Pure.

Before it: `records`, which knows which field the value is for. After it: nothing.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

AVAILABILITY = ("in_stock", "low_stock", "out_of_stock", "preorder", "backorder")
_AVAILABILITY_WORDS = {word: word for word in AVAILABILITY} | {
    "instock": "in_stock",
    "outofstock": "out_of_stock",
    "onbackorder": "backorder",
    "pre_order": "preorder",
}
# ISO 4217: currencies without two decimals. Everything else has two.
_EXPONENTS = dict.fromkeys(
    [
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "ISK",
        "JPY",
        "KMF",
        "KRW",
        "PYG",
        "RWF",
        "UGX",
        "UYI",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    ],
    0,
) | dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3)

_AMOUNT = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,20})?")
_MONEY = re.compile(r"(-?[0-9.]+) ?([A-Z]{3})")
_CURRENCY = re.compile(r"[A-Z]{3}")
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_STORABLE = re.compile(r"[\x00\ud800-\udfff]")
MAX_ID, MAX_URL, MAX_INT = 200, 2000, 2**31 - 1


class InvalidValue(ValueError):
    """One value is refused; `code` is the stable name of the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def text(raw: Any, max_length: int) -> str:
    """Stripped text, "" for nothing; numbers become text, other types are refused."""
    if raw is None:
        return ""
    if isinstance(raw, bool) or not isinstance(raw, str | int | Decimal):
        raise InvalidValue("wrong_type", f"Text expected, got {_kind(raw)}.")
    value = str(raw).strip()
    if _NOT_STORABLE.search(value):
        raise InvalidValue("bad_text", "Holds a NUL or half of a character.")
    if len(value) > max_length:
        raise InvalidValue("too_long", f"{len(value)} characters, {max_length} fit.")
    return value


def identifier(raw: Any) -> str:
    """The source's own id as text: never empty, no control characters."""
    if isinstance(raw, Decimal):
        raise InvalidValue("wrong_type", "An id is text or a whole number.")
    value = text(raw, MAX_ID)
    if not value:
        raise InvalidValue("missing", "The row has no id.")
    if _CONTROL.search(value):
        raise InvalidValue("bad_text", "The id holds a control character.")
    return value


def money(raw: Any, currency: str) -> tuple[Decimal | None, str]:
    """(amount, currency); (None, "") for nothing. A currency in the text wins."""
    if raw is None or raw == "":
        return None, ""
    written = _amount_text(raw)
    if match := _MONEY.fullmatch(written):
        written, currency = match[1], match[2]
    if not _AMOUNT.fullmatch(written):
        raise InvalidValue("bad_price", f"{_short(raw)} is no price like 9.99.")
    if not currency:
        raise InvalidValue("no_currency", "Neither the price nor the source names one.")
    amount = Decimal(written)
    if amount < 0:
        raise InvalidValue("negative", f"{written} is below zero.")
    return _fitting(amount, currency), currency


def _amount_text(raw: Any) -> str:
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, float):
        raw = Decimal(repr(raw))  # the shortest text that means this float: 9.99
    if isinstance(raw, bool) or not isinstance(raw, int | Decimal):
        raise InvalidValue("wrong_type", f"A number expected, got {_kind(raw)}.")
    # 1e999999999 is a valid JSON number: writing it out would take a gigabyte.
    if isinstance(raw, Decimal) and (not raw.is_finite() or abs(raw.adjusted()) > 20):
        raise InvalidValue("bad_price", f"{_short(raw)} is no price like 9.99.")
    return format(raw, "f") if isinstance(raw, Decimal) else str(raw)


def _fitting(amount: Decimal, currency: str) -> Decimal:
    """The amount with the decimals the currency has; refused if that would round."""
    places = _EXPONENTS.get(currency, 2)
    exact = amount.quantize(Decimal(1).scaleb(-places))
    if exact != amount:
        raise InvalidValue(
            "too_many_decimals",
            f"{amount} has more decimals than {currency} ({places}).",
        )
    return exact


def currency_code(raw: Any) -> str:
    """An ISO 4217 code in capitals, "" for nothing."""
    value = text(raw, 10).upper()
    if value and not _CURRENCY.fullmatch(value):
        raise InvalidValue("bad_currency", f"{_short(raw)} is no code like EUR.")
    return value


def count(raw: Any) -> int | None:
    """A whole number that fits 32 bits, None for nothing."""
    if raw is None or raw == "":
        return None
    written = _amount_text(raw).removesuffix(".0")
    if not _INTEGER.fullmatch(written):
        raise InvalidValue("bad_number", f"{_short(raw)} is no whole number.")
    if abs(int(written)) > MAX_INT:
        raise InvalidValue("out_of_range", f"{written} does not fit 32 bits.")
    return int(written)


def availability(raw: Any) -> str:
    """One of AVAILABILITY, "" for nothing."""
    word = text(raw, 100).lower().replace(" ", "_").replace("-", "_")
    if word and word not in _AVAILABILITY_WORDS:
        known = ", ".join(AVAILABILITY)
        raise InvalidValue("bad_availability", f"{_short(raw)} is none of {known}.")
    return _AVAILABILITY_WORDS.get(word, "")


def web_address(raw: Any) -> str:
    """An absolute http or https address, "" for nothing."""
    value = text(raw, MAX_URL)
    try:
        parts = urlsplit(value)
        _ = parts.port  # raises where it is no number, or too large
    except ValueError:
        raise InvalidValue("bad_url", f"{_short(raw)} is no address.") from None
    if value and (parts.scheme not in {"http", "https"} or not parts.netloc):
        raise InvalidValue("bad_url", f"{_short(raw)} is no http or https address.")
    return value


def moment(raw: Any) -> datetime | None:
    """An instant in UTC from ISO 8601 with its offset, None for nothing."""
    value = text(raw, 50)
    if not value:
        return None
    try:
        parsed = datetime.fromisoformat(value)
        if parsed.tzinfo is None:
            raise InvalidValue("no_timezone", f"{value} does not say its offset.")
        return parsed.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        if isinstance(error, InvalidValue):
            raise
        raise InvalidValue("bad_time", f"{_short(raw)} is no ISO 8601 time.") from None


def _kind(raw: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false"}
    return names.get(type(raw), type(raw).__name__)


def _short(raw: Any) -> str:
    return ascii(raw if isinstance(raw, str) else str(raw))[:60]
