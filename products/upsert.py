"""The only writer of Product: batches by set-based SQL, a single record by the ORM.

Before it: `importer` with valid records, streaming with one event, the admin form.
After it: the table. An unchanged record writes nothing at all.
"""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import orjson
import psycopg
from django.db import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)

from products import statements
from products.compare import Plan, compare
from products.models import Product, Source
from products.records import (
    FIELDS,
    HASH_VERSION,
    InvalidRow,
    ProductRecord,
    parse_fields,
    parse_identifier,
)
from project import outages

logger = logging.getLogger(__name__)

Fence = Callable[[], AbstractContextManager[Any]]
# PostgreSQL is back from a restart within a few seconds; a deadlock is over at once.
WAITS_S = (0.1, 0.4, 1.0, 2.0, 4.0)
# The record's fault: PostgreSQL's, or that of writing it down for PostgreSQL.
REFUSALS = (DataError, IntegrityError, ValueError, orjson.JSONEncodeError)
# Clocks differ; an event from further ahead would shut out every feed until then.
MAX_AHEAD = timedelta(minutes=5)
T = TypeVar("T")


@dataclass
class Outcomes:
    """What became of each external id: created, updated, unchanged or restored."""

    by_id: dict[str, str] = field(default_factory=dict)
    invalid: list[InvalidRow] = field(default_factory=list)


def upsert(
    source: Source,
    records: Iterable[ProductRecord],
    *,
    fenced: Fence,
    fetched_at: datetime,
) -> Outcomes:
    """Write a batch of records with distinct ids, at most 1,000.

    `fenced` opens the transaction and raises when another run has taken over.
    A record the database refuses is named in `invalid`; all others are saved.
    """
    batch = Batch(source, fenced, fetched_at)
    batch.save(sorted(records, key=lambda record: record.external_id))
    return batch.result


@dataclass
class Batch:
    source: Source
    fenced: Fence
    fetched_at: datetime
    result: Outcomes = field(default_factory=Outcomes)

    def save(self, records: list[ProductRecord]) -> None:
        """All of them in one transaction, or halves of them, down to one by one."""
        if not records:
            return
        if len(records) == 1:
            self._save_one(records[0])
            return
        try:
            self.result.by_id |= _repeated(lambda: self._write(records))
        except REFUSALS:
            middle = len(records) // 2
            self.save(records[:middle])
            self.save(records[middle:])

    def _write(self, records: list[ProductRecord]) -> dict[str, str]:
        with self.fenced():
            plan = compare(self.source, records, self.fetched_at)
            by_id = {record.external_id: record for record in records}
            outcomes = plan.outcomes
            outcomes |= self._insert(plan.new, by_id)
            outcomes |= self._update(plan, by_id)
            return outcomes

    def _insert(
        self, new: dict[str, bytes], by_id: dict[str, ProductRecord]
    ) -> dict[str, str]:
        if not new:
            return {}
        try:
            with transaction.atomic(), connection.wrap_database_errors:
                self._copy(new, by_id)
        except IntegrityError as error:
            # Not the lease's doing: an event may have created the product just now.
            if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                raise
            return self._insert_or_update(new, by_id)
        return dict.fromkeys(new, "created")

    def _copy(self, new: dict[str, bytes], by_id: dict[str, ProductRecord]) -> None:
        fixed: tuple[Any, ...] = (self.source.pk, self.fetched_at, HASH_VERSION, [])
        with connection.cursor() as cursor, cursor.copy(statements.COPY_NEW) as copy:
            for key, content_hash in new.items():
                copy.write_row((*fixed, content_hash, *by_id[key]))

    def _insert_or_update(
        self, new: dict[str, bytes], by_id: dict[str, ProductRecord]
    ) -> dict[str, str]:
        rows = self._run(statements.INSERT_OR_UPDATE, new, by_id)
        written = {key: "created" if fresh else "updated" for key, fresh in rows}
        return {key: written.get(key, "unchanged") for key in new}

    def _update(self, plan: Plan, by_id: dict[str, ProductRecord]) -> dict[str, str]:
        if not plan.changed:
            return {}
        rows = self._run(statements.UPDATE_CHANGED, plan.changed, by_id)
        # Counted from what the statement wrote: an event may have been faster.
        written = {key for (key,) in rows}
        return {
            key: plan.outcomes[key] if key in written else "unchanged"
            for key in plan.changed
        }

    def _run(
        self, sql: str, hashes: dict[str, bytes], by_id: dict[str, ProductRecord]
    ) -> list[tuple[Any, ...]]:
        rows = [statements.as_json(by_id[key], hash_) for key, hash_ in hashes.items()]
        values: dict[str, Any] = {
            "rows": orjson.dumps(rows).decode(),
            "source": self.source.pk,
            "time": self.fetched_at,
        }
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    def _save_one(self, record: ProductRecord) -> None:
        try:
            outcome = _repeated(lambda: self._write_one(record))
        except REFUSALS as error:
            reason = str(error).splitlines()[0][:300]
            self.result.invalid.append(
                InvalidRow("", "refused_by_database", reason, record.external_id)
            )
        else:
            self.result.by_id[record.external_id] = outcome

    def _write_one(self, record: ProductRecord) -> str:
        with self.fenced():
            plan = compare(self.source, [record], self.fetched_at, lock=True)
            outcome = plan.outcomes[record.external_id]
            if outcome == "unchanged":
                return outcome
            values = dict(zip(FIELDS, record[1:], strict=True)) | {
                "content_hash": record.content_hash(),
                "hash_version": HASH_VERSION,
                "source_time": self.fetched_at,
                "withdrawn_at": None,
            }
            save(self.source.pk, record.external_id, values)
            return outcome


def save(source_id: int, external_id: str, values: dict[str, Any]) -> bool:
    """Create or update one product, locked fields left alone; True if created.

    Runs inside the caller's transaction.
    """
    locked = (
        Product.objects.select_for_update()
        .filter(source_id=source_id, external_id=external_id)
        .values_list("locked_fields", flat=True)
        .first()
    )
    unlocked = {k: v for k, v in values.items() if k not in (locked or ())}
    _, created = Product.objects.update_or_create(
        source_id=source_id,
        external_id=external_id,
        defaults=unlocked,
        create_defaults=values,
    )
    return created


def apply_change(
    source_slug: str, external_id: str, fields: dict[str, Any], source_time: datetime
) -> str:
    """One event: set some fields of one product, unless the row is newer than it.

    Returns created, updated, unchanged, outdated or unknown_source. Raises InvalidRow
    with the reason. A product made by an event waits for the feed to complete it.
    """
    source = Source.objects.filter(slug=source_slug).first()
    if source is None:
        return "unknown_source"
    key = parse_identifier(external_id)
    values = parse_fields(fields, source.currency)
    if values.get("title") == "":
        raise InvalidRow("title", "missing", "A title cannot be empty.", key)
    if source_time > datetime.now(UTC) + MAX_AHEAD:
        raise InvalidRow("", "future", f"{source_time} is in the future.", key)
    with transaction.atomic():
        return _apply(source, key, values, source_time)


def _apply(
    source: Source, key: str, values: dict[str, Any], source_time: datetime
) -> str:
    products = Product.objects.select_for_update()
    product = products.filter(source=source, external_id=key).first()
    if product is None:
        fresh = {"title": key, **values, "source_time": source_time}
        product, created = products.update_or_create(
            source=source, external_id=key, defaults={}, create_defaults=fresh
        )
        if created:
            return "created"
    if product.source_time and source_time < product.source_time:
        return "outdated"
    changes = {
        name: value
        for name, value in values.items()
        if name not in product.locked_fields and getattr(product, name) != value
    }
    if changes or source_time != product.source_time:
        # Even without a change the time is kept, so that an older event stays out.
        stale = {"content_hash": None} if changes else {}
        changes_and_time = {**changes, **stale, "source_time": source_time}
        products.update_or_create(
            source=source, external_id=key, defaults=changes_and_time
        )
    return "updated" if changes else "unchanged"


def edit(product: Product, changed: Iterable[str]) -> None:
    """Save what an editor changed on the form; the next feed heals the rest."""
    product.content_hash = None
    product.save(update_fields=[*changed, "content_hash", "updated_at"])


def _repeated(write: Callable[[], T]) -> T:
    """Again after a deadlock or a lost connection: the batch itself is fine."""
    for wait_s in (*WAITS_S, None):
        try:
            return write()
        except (OperationalError, InterfaceError) as error:
            # Inside a caller's transaction there is nothing left to repeat in.
            if wait_s is None or connection.in_atomic_block:
                raise
            logger.warning(
                "batch is written again in %s s: %s",
                wait_s,
                outages.describe(error) or str(error).partition("\n")[0],
                extra={"action": "batch_repeated"},
            )
            connection.close_if_unusable_or_obsolete()
            time.sleep(wait_s)
    raise AssertionError("unreachable")
