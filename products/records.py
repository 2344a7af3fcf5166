"""Raw row → ProductRecord, or InvalidRow with the reason. Pure.

Before it: a reader's raw rows. After it: `upsert`, which writes records as they are.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from products.values import (
    InvalidValue,
    availability,
    count,
    currency_code,
    identifier,
    moment,
    money,
    text,
    web_address,
)

# Raise it when the meaning of a column changes: every row is then applied once more.
HASH_VERSION = 1


class ProductRecord(NamedTuple):
    """One valid row. Prices in whole units of `currency`; `modified_at` in UTC."""

    external_id: str
    title: str
    price: Decimal | None = None
    currency: str = ""
    sale_price: Decimal | None = None
    stock: int | None = None
    availability: str = ""
    sku: str = ""
    gtin: str = ""
    brand: str = ""
    category: str = ""
    url: str = ""
    image_url: str = ""
    description: str = ""
    modified_at: datetime | None = None

    def content_hash(self) -> bytes:
        """16 bytes, equal exactly when every field is equal."""
        content = orjson.dumps((HASH_VERSION, *self), default=_price)
        return hashlib.blake2b(content, digest_size=16).digest()


FIELDS = ProductRecord._fields[1:]
MAPPABLE = ProductRecord._fields
REQUIRED = ("external_id", "title", "price")

MAX_LENGTH = {
    "title": 500,
    "sku": 255,
    "gtin": 50,
    "brand": 255,
    "category": 500,
    "description": 50_000,
}


class InvalidRow(ValueError):
    """The row is refused: count it, keep it as a RowIssue, go on."""

    def __init__(self, field: str, code: str, message: str, external_id: str = ""):
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.code = code
        self.message = message
        self.external_id = external_id


def mapping_for(
    defaults: Mapping[str, str], own: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Product field → path into the row, as keys; raises ValueError with the reason."""
    if not isinstance(own, dict):
        raise ValueError("The mapping is an object: product field → path in the row.")  # noqa: TRY004
    merged: dict[str, Any] = {**defaults, **own}
    paths: dict[str, list[str]] = {}
    for field, path in merged.items():
        if field not in MAPPABLE:
            raise ValueError(f"Unknown field {field!r}; known: {', '.join(MAPPABLE)}.")
        if path is None:
            continue
        if not isinstance(path, str) or not all(path.split(".")):
            raise ValueError(f"{field}: the path must be text like 'price' or 'a.b'.")
        paths[field] = path.split(".")
    missing = [field for field in REQUIRED if field not in paths]
    if missing:
        raise ValueError(f"The mapping needs {', '.join(missing)}.")
    return paths


def parse(
    row: Mapping[str, Any], mapping: Mapping[str, list[str]], currency: str
) -> ProductRecord:
    """A record of `row`; raises InvalidRow. `currency` is the source's, may be ""."""
    if not isinstance(row, dict):
        raise InvalidRow("", "not_an_object", "The row is not an object.")
    values = {field: _dig(row, path) for field, path in mapping.items()}
    external_id = parse_identifier(values.pop("external_id"))
    try:
        fields = parse_fields(values, currency)
        for field in ("title", "price"):
            if fields.get(field) in {None, ""}:
                raise InvalidRow(field, "missing", f"The row has no {field}.")  # noqa: TRY301
    except InvalidRow as error:
        error.external_id = external_id
        raise
    return ProductRecord(external_id, **fields)


def parse_fields(values: Mapping[str, Any], currency: str) -> dict[str, Any]:
    """Valid values of the given fields only; raises InvalidRow.

    A price may carry its currency ("9.99 USD"), which then wins over `currency`.
    """
    unknown = set(values) - set(FIELDS)
    if unknown:
        raise InvalidRow("", "unknown_field", f"Unknown: {', '.join(sorted(unknown))}.")
    fields = {
        field: _field(field, _plain_parser(field), value)
        for field, value in values.items()
        if field not in _MONEY
    }
    return {**fields, **_prices(values, fields.get("currency") or currency)}


def parse_identifier(raw: Any) -> str:
    """The source's own id as text; raises InvalidRow."""
    return str(_field("external_id", identifier, raw))


_MONEY = ("price", "sale_price")


def _prices(values: Mapping[str, Any], currency: str) -> dict[str, Any]:
    """price, sale_price and currency of `values`, all in one currency."""
    prices: dict[str, Any] = {}
    for field in _MONEY:
        if field not in values:
            continue
        amount, found = _field(field, lambda raw: money(raw, currency), values[field])
        prices[field] = amount
        if amount is None:
            continue
        if prices.setdefault("currency", found) != found:
            raise InvalidRow(field, "mixed_currency", f"{field} is in {found}.")
    return prices


def _plain_parser(field: str) -> Any:
    special = {
        "currency": currency_code,
        "stock": count,
        "availability": availability,
        "url": web_address,
        "image_url": web_address,
        "modified_at": moment,
    }
    return special.get(field) or (lambda raw: text(raw, MAX_LENGTH[field]))


def _field(field: str, parser: Any, raw: Any) -> Any:
    try:
        return parser(raw)
    except InvalidValue as error:
        raise InvalidRow(field, error.code, str(error)) from None


def _dig(row: Any, path: list[str]) -> Any:
    """The value at `path`, None where it ends early."""
    for key in path:
        if not isinstance(row, dict):
            return None
        row = row.get(key)
    return row


def _price(value: Decimal) -> str:
    # 9.9 and 9.90 are one price: numeric compares by value, so must the hash.
    return format(value.normalize(), "f")
