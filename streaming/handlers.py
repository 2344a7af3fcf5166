"""HANDLERS: what each kind of event does, and how it is retried.

Before it: `lanes` claimed a message and decoded its event. After it: `products` and
`tracking`, by their public functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from products.records import InvalidRow
from products.upsert import apply_change as change_product
from streaming.retries import PATIENT, QUICK, STANDARD, Reject, RetryPolicy
from streaming.schemas import DeviceFix, Event, ProductChange
from tracking.fixes import InvalidFix, build
from tracking.ingest import accept_sync
from tracking.models import Device


@dataclass(frozen=True, slots=True)
class Message:
    """What a handler gets. `uid` is the idempotency key for effects elsewhere."""

    uid: UUID
    topic: str
    partition: int
    offset: int
    revision: int
    key: bytes | None
    value: bytes | None
    ts_ms: int
    attempts: int
    is_replay: bool
    event: Any


@dataclass(frozen=True)
class Handler:
    """`prepare(message) → value` runs outside any transaction and may take long; its
    effects must bear repetition. `apply(value) → outcome` runs inside the finishing
    transaction, may run twice (the first one rolled back) and touches the database only.
    Without `prepare` the value is the message; without `apply` it is the outcome.
    """

    name: str
    model: type[Event]
    prepare: Callable[[Message], Any] | None = None
    apply: Callable[[Any], str] | None = None
    retry: RetryPolicy = STANDARD

    @property
    def is_grouped(self) -> bool:
        """Whether neighbours may share its finishing transaction.

        With both functions a `prepare` could run before the `apply` of the same key.
        """
        return not (self.prepare and self.apply)


def apply_change(message: Message) -> str:
    """Price and stock of one product, unless the row is newer. Raises Reject."""
    event: ProductChange = message.event
    given = event.model_fields_set & {"price", "currency", "stock"}
    fields = {name: getattr(event, name) for name in sorted(given)}
    try:
        outcome = change_product(
            event.source, event.external_id, fields, event.changed_at
        )
    except InvalidRow as error:
        raise Reject(error.code, str(error)) from error
    if outcome == "unknown_source":
        raise Reject(outcome, f"There is no source with the slug {event.source!r}.")
    return outcome


def apply_fix(message: Message) -> str:
    """One fix into the same ingest as a phone's. Raises Reject; Unavailable is retried."""
    event: DeviceFix = message.event
    number = int(event.device) if event.device.isdecimal() else 0
    device = Device.objects.filter(pk=number).first() if number < 2**63 else None
    if device is None:
        raise Reject("unknown_device", f"There is no device {event.device!r}.")
    optional = event.model_dump(
        include={"accuracy_m", "speed_mps", "course_deg", "altitude_m", "battery_pct"}
    )
    try:
        fix = build(_milliseconds(event.fixed_at), event.lat, event.lon, **optional)
    except InvalidFix as error:
        raise Reject(error.reason, error.detail) from error
    return accept_sync(device, [fix], door="stream")[0].text


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


HANDLERS: dict[str, Handler] = {
    "product-change/1": Handler(
        "products.apply_change",
        ProductChange,
        apply=apply_change,
        retry=QUICK,
    ),
    # Its store is Redis: an outage of minutes is nobody's last attempt.
    "fix/1": Handler("tracking.apply_fix", DeviceFix, prepare=apply_fix, retry=PATIENT),
}
