"""A batch of records against the table: what is new, changed, unchanged. Reads only.

Before it: `upsert` inside its transaction, or a dry run. After it: the same.
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
from django.db import connection

from products import statements
from products.models import Product, Source
from products.records import FIELDS, ProductRecord


@dataclass
class Plan:
    """A batch compared with the table: what it would write."""

    new: dict[str, bytes] = field(default_factory=dict)
    changed: dict[str, bytes] = field(default_factory=dict)
    restored: set[str] = field(default_factory=set)
    outcomes: dict[str, str] = field(default_factory=dict)


def compare(
    source: Source,
    records: list[ProductRecord],
    fetched_at: datetime,
    *,
    lock: bool = False,
) -> Plan:
    """What the batch would write. Reads only; `lock` keeps the rows until commit."""
    keys = "\x1f".join(record.external_id for record in records)
    sql = statements.READ_HASHES + (" FOR UPDATE" if lock else "")
    connection.ensure_connection()
    # A cursor of psycopg's own binds on the server: the long key text goes as it is.
    with (
        connection.wrap_database_errors,
        psycopg.Cursor(connection.connection) as cursor,
    ):
        stored = {row[0]: row[1:] for row in cursor.execute(sql, (source.pk, keys))}
    plan = Plan()
    for record in records:
        _classify(plan, record, stored.get(record.external_id), fetched_at)
    return plan


def _classify(
    plan: Plan,
    record: ProductRecord,
    stored: tuple[Any, ...] | None,
    fetched_at: datetime,
) -> None:
    key, content_hash = record.external_id, record.content_hash()
    if stored is None:
        plan.new[key], plan.outcomes[key] = content_hash, "created"
        return
    old_hash, source_time, withdrawn = stored
    outdated = source_time is not None and source_time > fetched_at
    if outdated or (old_hash == content_hash and not withdrawn):
        plan.outcomes[key] = "unchanged"
        return
    plan.changed[key] = content_hash
    plan.outcomes[key] = "restored" if withdrawn else "updated"


@dataclass(frozen=True)
class FieldChange:
    """One field of one product, as a dry run shows it."""

    external_id: str
    field: str
    old: Any
    new: Any


def differences(
    source: Source, records: list[ProductRecord], plan: Plan
) -> list[FieldChange]:
    """Field by field, what the changed records of `plan` would set. Locked: nothing."""
    by_id = {record.external_id: record for record in records}
    rows = Product.objects.filter(source=source, external_id__in=plan.changed)
    return [
        FieldChange(row.external_id, name, _like(old, new), new)
        for row in rows.order_by("external_id")
        for name in FIELDS
        if name not in row.locked_fields
        if (old := getattr(row, name)) != (new := getattr(by_id[row.external_id], name))
    ]


def _like(old: Any, new: Any) -> Any:
    """An old price with the decimals of the new one, where that loses nothing."""
    if not isinstance(old, Decimal) or not isinstance(new, Decimal):
        return old
    shown = old.quantize(new)
    return shown if shown == old else old
