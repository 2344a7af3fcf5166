"""★ The story of an import: page → records → lease.check() → upsert → counts → finish.

Before it: `tasks` and the command, which hold the lease. After it: the admin's runs.
Nothing is ever withdrawn here; a product that is missing stays as it is.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial

from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone
from prometheus_client import Counter

from products.credentials import SecretMissing, check_header, resolve
from products.http import HttpClient, SourceDeferred, SourceFailed
from products.models import ImportRun, RowIssue, Source
from products.readers import READERS, Reader
from products.records import HASH_VERSION, ProductRecord, mapping_for
from products.tally import Tally
from products.upsert import Outcomes, upsert
from project.jobs.lease import Lease, StopRun

logger = logging.getLogger(__name__)

RUNS = Counter(
    "drover_products_import_runs_total",
    "Finished import runs, by outcome.",
    ["outcome"],
)

Write = Callable[[list[ProductRecord], datetime], Outcomes]
Outcome = ImportRun.Outcome


class ImportFailed(Exception):
    """The run is over and recorded; the job must not count as succeeded."""

    def __init__(self, run: ImportRun) -> None:
        super().__init__(run.error)
        self.run = run


def import_source(source: Source, lease: Lease) -> ImportRun:
    """One run of one source under `lease`.

    Raises ImportFailed when the source could not be read, StopRun when the lease is
    lost or the process shuts down: then the job run says how it ended.
    """
    tally = tally_for(source)
    run = ImportRun.objects.create(source=source, job_run=lease.run, mode=source.mode)
    try:
        outcome, error = read_and_write(run, tally, lease)
    except StopRun as stop:
        tally.drop_unsettled()
        finish(run, lease, tally, "", str(stop))
        raise
    except Exception as bug:
        # The record of a run must not hide why it failed.
        tally.drop_unsettled()
        with suppress(DatabaseError):
            finish(run, lease, tally, Outcome.FAILED, f"{type(bug).__name__}: {bug}")
        raise
    finish(run, lease, tally, outcome, error)
    if outcome == Outcome.FAILED:
        raise ImportFailed(run)
    return run


def read_and_write(run: ImportRun, tally: Tally, lease: Lease) -> tuple[str, str]:
    """The whole source, page by page; (outcome, error) of how that went."""
    source = run.source
    try:
        with open_reader(source, lease.check, etag=known_etag(source)) as reader:
            try:
                walk(reader, tally, partial(write_page, run, tally, lease))
            finally:
                note_cost(run, reader)
    except SourceDeferred as failure:
        return Outcome.DEFERRED, str(failure)
    except SourceFailed as failure:
        return Outcome.FAILED, str(failure)
    remember_etag(source, reader)
    return verdict(source, reader, tally)


def walk(reader: Reader, tally: Tally, write: Write) -> None:
    """Every page of the source through `write`; a dry run comes this way too."""
    for page in reader.pages():
        if reader.paged and tally.nothing_new(page.rows):
            raise SourceFailed("Pagination loop: a page held no row that was new.")
        records = tally.admit(page.rows)
        outcomes = write(records, page.fetched_at)
        tally.settle(outcomes.by_id, outcomes.invalid)


def write_page(
    run: ImportRun,
    tally: Tally,
    lease: Lease,
    records: list[ProductRecord],
    fetched_at: datetime,
) -> Outcomes:
    lease.check()
    lease.progress(**tally.counts)
    keep_issues(run, tally)
    return upsert(run.source, records, fenced=lease.fenced, fetched_at=fetched_at)


@contextmanager
def open_reader(
    source: Source, check: Callable[[], None], *, etag: str = ""
) -> Iterator[Reader]:
    """The source's reader with its client; waits end early when `check` raises."""
    try:
        check_header(source.auth_header)
        secret = resolve(source.auth_secret) if source.auth_secret else ""
    except (SecretMissing, ValueError) as error:
        raise SourceFailed(str(error)) from error
    client = HttpClient(
        source.url, source.auth_header, secret, pause=partial(pause, check)
    )
    with client:
        yield READERS[source.kind](client, source.url, source.options, etag)


def pause(check: Callable[[], None], seconds: float) -> None:
    """Wait, asking every half second whether to go on; `check` raises if not."""
    until = time.monotonic() + seconds
    check()
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(0.5, left))
        check()


def tally_for(source: Source) -> Tally:
    mapping = mapping_for(READERS[source.kind].mapping, source.mapping)
    return Tally(mapping, source.currency)


def known_etag(source: Source) -> str:
    """The ETag to ask with; "" while a row waits for the feed to heal it."""
    if not source.etag:
        return ""
    waiting = Q(content_hash=None) | ~Q(hash_version=HASH_VERSION)
    return "" if source.products.filter(waiting).exists() else source.etag


def verdict(source: Source, reader: Reader, tally: Tally) -> tuple[str, str]:
    """(outcome, error) of a source that was read to its end."""
    counts = tally.counts
    if reader.not_modified:
        return Outcome.NOT_MODIFIED, ""
    is_snapshot = source.mode == Source.Mode.SNAPSHOT
    if is_snapshot and not counts["seen"] and source.products.exists():
        return Outcome.BLOCKED, "The source sent nothing at all; nothing was changed."
    if counts["seen"] and counts["invalid"] == counts["seen"]:
        return Outcome.FAILED, "Every row was refused; see the row issues."
    return (Outcome.PARTIAL if counts["invalid"] else Outcome.SUCCEEDED), ""


def note_cost(run: ImportRun, reader: Reader) -> None:
    traffic = reader.client.traffic
    run.requests, run.retries = traffic.requests, traffic.retries
    run.bytes_read, run.complete = traffic.bytes_read, reader.complete


def remember_etag(source: Source, reader: Reader) -> None:
    if reader.complete and reader.etag != source.etag and len(reader.etag) <= 300:
        # Edited meanwhile: what this run was answered says nothing about the new rules.
        unedited = Source.objects.filter(pk=source.pk, updated_at=source.updated_at)
        unedited.update(etag=reader.etag)


def keep_issues(run: ImportRun, tally: Tally) -> None:
    RowIssue.objects.bulk_create(
        RowIssue(
            run=run,
            row=issue.row,
            external_id=issue.reason.external_id,
            field=issue.reason.field,
            code=issue.reason.code,
            message=issue.reason.message,
            raw=issue.raw,
        )
        for issue in tally.take_issues()
    )


def finish(
    run: ImportRun, lease: Lease, tally: Tally, outcome: str, error: str
) -> None:
    """Close the run's record; the counts are proved to sum first."""
    keep_issues(run, tally)
    lease.progress(**tally.counts)
    for name, value in tally.proved().items():
        setattr(run, name, value)
    run.outcome, run.error, run.finished_at = outcome, error, timezone.now()
    run.save()
    RUNS.labels(outcome or "lost").inc()
    logger.info(
        "import run finished",
        extra={
            "action": "import_run_finished",
            "source": run.source.slug,
            "outcome": str(outcome),
            "error": error,
            "counts": tally.counts,
        },
    )
