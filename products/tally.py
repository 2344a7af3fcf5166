"""What became of every row of one run: exactly one outcome each. Pure.

Before it: `importer` with raw rows, then with the outcomes of `upsert`. After it: the
counts of the run and the issues to keep.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from prometheus_client import Counter as Metric

from products.records import InvalidRow, ProductRecord, parse

ROWS = Metric(
    "drover_products_rows_total", "Rows of product sources, by outcome.", ["outcome"]
)

OUTCOMES = ("created", "updated", "unchanged", "restored", "invalid", "duplicate")
KEPT_ISSUES = 1000
RAW_BYTES = 4096


@dataclass(frozen=True)
class Issue:
    """A refused row: its number from 1 over all pages, the reason, the row cut."""

    row: int
    reason: InvalidRow
    raw: str


@dataclass
class Tally:
    """`issues` holds what was not collected yet, never more than 1,000 in a run."""

    mapping: Mapping[str, list[str]]
    currency: str
    seen: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    issues: list[Issue] = field(default_factory=list)
    kept_issues: int = 0
    # Hashes of ids (8 bytes, not the texts): what was written, what was refused.
    written: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    _rows: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def admit(self, rows: list[Any]) -> list[ProductRecord]:
        """The valid records of a page, each id once: the later row wins."""
        self._rows = {}
        records: dict[str, ProductRecord] = {}
        for raw in rows:
            self.seen += 1
            try:
                record = parse(raw, self.mapping, self.currency)
            except InvalidRow as reason:
                self._refuse(self.seen, reason, raw)
                continue
            if record.external_id in records:
                self._count("duplicate")
            records[record.external_id] = record
            self._rows[record.external_id] = (self.seen, raw)
        return list(records.values())

    def settle(self, by_id: Mapping[str, str], invalid: list[InvalidRow]) -> None:
        """Count the outcomes of the records that `admit` returned last."""
        for reason in invalid:
            row, raw = self._rows[reason.external_id]
            self._refuse(row, reason, raw)
        for external_id, outcome in by_id.items():
            # Written again in a later page: the row did win, and it is a duplicate.
            again = hash(external_id) in self.written
            self._count("duplicate" if again else outcome)
            self.written.add(hash(external_id))

    def nothing_new(self, rows: list[Any]) -> bool:
        """True if every row of a page was on an earlier page already."""
        keys = (hash(self._key(raw)) for raw in rows)
        return all(key in self.written or key in self.refused for key in keys)

    def take_issues(self) -> list[Issue]:
        """The issues since the last call."""
        issues, self.issues = self.issues, []
        return issues

    @property
    def counts(self) -> dict[str, int]:
        """seen, and the six outcomes that sum to it."""
        return {"seen": self.seen} | {name: self.outcomes[name] for name in OUTCOMES}

    def drop_unsettled(self) -> None:
        """The page that broke off was not written: its records were not seen."""
        self.seen = self.outcomes.total()

    def proved(self) -> dict[str, int]:
        """`counts`; raises RuntimeError if a row has no outcome, or two."""
        if self.seen != self.outcomes.total():
            raise RuntimeError(f"The counts do not sum: {self.counts}")
        return self.counts

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1
        ROWS.labels(outcome).inc()

    def _refuse(self, row: int, reason: InvalidRow, raw: Any) -> None:
        self._count("invalid")
        self.refused.add(hash(self._key(raw)))
        if self.kept_issues < KEPT_ISSUES:
            self.kept_issues += 1
            self.issues.append(Issue(row, reason, as_text(raw)))

    def _key(self, raw: Any) -> str:
        """The id as the row has it; without one, the row itself."""
        value = raw
        for key in self.mapping["external_id"]:
            value = value.get(key) if isinstance(value, dict) else None
        try:
            return str(raw if value is None or value == "" else value).strip()
        except RecursionError:
            return as_text(raw)


def as_text(raw: Any) -> str:
    """The row as JSON, storable, cut at 4 kB."""
    try:
        written = orjson.dumps(raw, default=str).decode()
    except (TypeError, ValueError, RecursionError):
        # Half characters and the like: the row is kept readable, not exact.
        written = _written_out(raw)
    return written.encode()[:RAW_BYTES].decode(errors="ignore")


def _written_out(raw: Any) -> str:
    try:
        return ascii(raw)
    except RecursionError:
        return f"{type(raw).__name__}, nested too deep to be shown"
