"""Bytes → event, or InvalidMessage(reason). Pure.

Before it: `consumer`, which polled the bytes, and `lanes`, which claimed them again.
After it: `inbox` (ready or dead) and `handlers`. Strict on purpose: what one parser
accepts and another refuses (duplicate names, NaN, a BOM) never becomes an event.
"""

import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, Protocol

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_DIGITS = 40


class InvalidMessage(Exception):
    """A message that can never be handled as it is: bury it, do not retry.

    `reason` is a short stable code, `path` a JSON path such as `$.price` or "".
    """

    def __init__(self, reason: str, detail: str, path: str = "") -> None:
        super().__init__(detail)
        self.reason = reason
        self.path = path


class Event(BaseModel):
    """What every event has. Names it does not know are ignored: producers may grow."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)

    schema_: str = Field(alias="schema")
    event_id: str = Field(default="", max_length=100)


def _no_truth(value: Any) -> Any:
    """Python takes true for 1; a stock of true is a fault of its producer."""
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")  # noqa: TRY004
    return value


Whole = Annotated[int, BeforeValidator(_no_truth)]
Number = Annotated[float, BeforeValidator(_no_truth)]


class ProductChange(Event):
    """`product-change/1`: price or stock of one product, as its source has it now."""

    schema_: Literal["product-change/1"] = Field(alias="schema")
    source: str = Field(min_length=1, max_length=50)
    external_id: str = Field(min_length=1, max_length=200)
    price: Decimal | None = Field(default=None, ge=0, max_digits=16, decimal_places=4)
    currency: str | None = Field(default=None, pattern=r"^[A-Z]{3}$")
    stock: Whole | None = Field(default=None, ge=-(2**31), lt=2**31)
    changed_at: AwareDatetime


class DeviceFix(Event):
    """`fix/1`: one position of one device, SI units, as `tracking.fixes` has them."""

    schema_: Literal["fix/1"] = Field(alias="schema")
    device: str = Field(min_length=1, max_length=100)
    lat: Number = Field(ge=-90, le=90)
    lon: Number = Field(ge=-180, le=180)
    fixed_at: AwareDatetime
    accuracy_m: Number | None = Field(default=None, ge=0)
    speed_mps: Number | None = Field(default=None, ge=0)
    course_deg: Number | None = Field(default=None, ge=0, le=360)
    altitude_m: Number | None = None
    battery_pct: Number | None = Field(default=None, ge=0, le=100)


class HasModel(Protocol):
    """What `decode` needs of an entry of HANDLERS: the model of its events."""

    @property
    def model(self) -> type[Event]: ...


def decode(value: bytes | None, table: Mapping[str, HasModel]) -> Event:
    """The validated event. `table` maps schema names to what handles them.

    Raises InvalidMessage, and nothing else, whatever the bytes are.
    """
    try:
        return _decode(value, table)
    except InvalidMessage:
        raise
    except Exception as error:
        # A net: one message must never end the consumer, again and again.
        text = f"{type(error).__name__}: {error}"
        raise InvalidMessage("unreadable", text) from error


def _decode(value: bytes | None, table: Mapping[str, HasModel]) -> Event:
    document = parse(value)
    name = document.get("schema")
    if not isinstance(name, str):
        raise InvalidMessage("no_schema", 'The field "schema" is missing.', "$.schema")
    if name not in table:
        known = ", ".join(sorted(table))
        detail = f"No handler takes {name[:60]!r}; known are {known}."
        raise InvalidMessage("unknown_schema", detail, "$.schema")
    try:
        return table[name].model.model_validate(document)
    except ValidationError as error:
        raise _as_invalid(error) from None


def parse(value: bytes | None) -> dict[str, Any]:
    """The JSON object in `value`; numbers with a fraction are Decimal."""
    if value is None:
        raise InvalidMessage("tombstone", "A null value: no handler deletes by it.")
    if not value:
        raise InvalidMessage("empty", "The value has no bytes.")
    if len(value) > MAX_BYTES:
        detail = f"{len(value)} bytes are more than the {MAX_BYTES} allowed."
        raise InvalidMessage("too_large", detail)
    document = _load(value)
    # First: how deep the interpreter itself can read differs by version.
    _inspect(document)
    if not isinstance(document, dict):
        raise InvalidMessage("not_an_object", "The JSON is not an object.", "$")
    return document


def _load(value: bytes) -> Any:
    """Raises InvalidMessage for what is not one strict JSON document in UTF-8."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidMessage("bad_encoding", f"Not UTF-8: {error.reason}.") from None
    if text.startswith("\ufeff"):
        raise InvalidMessage("bad_encoding", "Starts with a byte order mark.")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise InvalidMessage("too_deep", "Nested too deeply to be read.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        # Some of its messages end in "at" already.
        what = error.msg.removesuffix(" at")
        raise InvalidMessage("bad_json", f"{what} at {where}.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise InvalidMessage("duplicate_name", f"{twice[:60]!r} comes twice.")
    return found


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise InvalidMessage("bad_number", f"An integer of {len(digits)} digits.")
    return int(digits)


def _decimal(digits: str) -> Decimal:
    try:
        number = Decimal(digits) if len(digits) <= MAX_DIGITS else None
    except InvalidOperation:
        # An exponent of so many digits is no Decimal at all.
        number = None
    if number is None or abs(number.adjusted()) > MAX_DIGITS:
        raise InvalidMessage("bad_number", f"{digits[:30]} is out of range.")
    return number


def _constant(name: str) -> float:
    raise InvalidMessage("bad_number", f"{name} is no JSON number.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_integer,
    parse_float=_decimal,
    parse_constant=_constant,
)


def _inspect(document: Any) -> None:
    """Depth and text of everything, also of fields that no model names."""
    waiting: list[tuple[Any, int]] = [(document, 1)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, str):
            _check_text(node)
        elif isinstance(node, dict | list):
            if depth > MAX_DEPTH:
                raise InvalidMessage("too_deep", f"More than {MAX_DEPTH} levels.")
            inner = [*node, *node.values()] if isinstance(node, dict) else node
            waiting.extend((part, depth + 1) for part in inner)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise InvalidMessage("bad_text", "Text with a null character.")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidMessage("bad_text", "Text with half a surrogate pair.")


def _as_invalid(error: ValidationError) -> InvalidMessage:
    """The first fault names the reason; the detail lists up to five."""
    faults = error.errors(include_url=False, include_input=False)
    paths = ["$" + "".join(f".{part}" for part in fault["loc"]) for fault in faults]
    reason = "missing_field" if faults[0]["type"] == "missing" else "bad_value"
    lines = [
        f"{path}: {fault['msg']}" for path, fault in zip(paths, faults, strict=True)
    ]
    return InvalidMessage(reason, "; ".join(lines[:5]), paths[0])
