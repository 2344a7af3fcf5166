"""What an import reads, writes and leaves behind: source, product, run, row issue.

Before it: `importer` and `upsert`, the only writers. After it: the admin, and streaming.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F
from django.db.models.functions import Now

from products.credentials import check_header, check_reference
from products.readers import READERS
from products.records import mapping_for
from products.values import AVAILABILITY, currency_code, web_address


class Source(models.Model):
    """A place products come from. The secret itself is never stored, only its name."""

    class Mode(models.TextChoices):
        SNAPSHOT = "snapshot", "Snapshot: sends everything it has"
        DELTA = "delta", "Delta: sends only what changed"

    slug = models.SlugField(
        unique=True, help_text="Used on the command line: import_products SLUG."
    )
    name = models.CharField(max_length=100)
    kind = models.CharField(
        max_length=30, choices=[(kind, r.label) for kind, r in READERS.items()]
    )
    url = models.CharField("URL", max_length=2000)
    currency = models.CharField(
        max_length=3,
        blank=True,
        help_text="ISO 4217, for prices that carry no currency of their own.",
    )
    mode = models.CharField(max_length=10, choices=Mode, default=Mode.SNAPSHOT)
    enabled = models.BooleanField(default=True)
    options = models.JSONField(
        default=dict,
        blank=True,
        help_text='Of the reader, for example {"limit": 100, "items": "products"}.',
    )
    mapping = models.JSONField(
        default=dict,
        blank=True,
        help_text='Product field → path in the row, for example {"price": "cost.net"}. '
        "What is left out keeps the default of the kind; null leaves a field empty.",
    )
    auth_header = models.CharField(max_length=100, default="Authorization", blank=True)
    auth_secret = models.CharField(
        max_length=300,
        blank=True,
        help_text="Where the header's value is kept: env:NAME or file:/path. "
        "Never the secret itself.",
    )
    etag = models.CharField(max_length=300, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        permissions = [("run_source", "Can start an import of a source")]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        # Another address or mapping: what the old one answered means nothing now.
        self.etag = ""
        if kwargs.get("update_fields") is not None:
            kwargs["update_fields"] = {*kwargs["update_fields"], "etag"}
        super().save(*args, **kwargs)

    def clean(self) -> None:
        """Raises ValidationError, per field, for what no import could run with."""
        if self.kind not in READERS:
            return
        self.currency = self.currency.upper()
        # An emptied text field arrives as None.
        self.options, self.mapping = self.options or {}, self.mapping or {}
        reader = READERS[self.kind]
        checks: dict[str, Callable[[], object]] = {
            "url": partial(web_address, self.url),
            "currency": partial(currency_code, self.currency),
            "options": partial(reader.options.model_validate, self.options),
            "mapping": partial(mapping_for, reader.mapping, self.mapping),
            "auth_header": partial(check_header, self.auth_header),
            "auth_secret": partial(check_reference, self.auth_secret),
        }
        errors: dict[str, str] = {}
        for field, check in checks.items():
            try:
                check()
            except ValueError as error:
                errors[field] = str(error)
        if errors:
            raise ValidationError(errors)


class Product(models.Model):
    """One product of one source. Written by `products.upsert` alone."""

    source = models.ForeignKey(
        Source,
        on_delete=models.PROTECT,
        related_name="products",
        db_index=False,  # the unique constraint below starts with it
    )
    # Often-changed columns first: a price change then writes half the WAL.
    price = models.DecimalField(max_digits=16, decimal_places=4, null=True, blank=True)
    sale_price = models.DecimalField(
        max_digits=16, decimal_places=4, null=True, blank=True
    )
    stock = models.IntegerField(null=True, blank=True)
    availability = models.CharField(
        max_length=20,
        blank=True,
        choices=[(word, word.replace("_", " ")) for word in AVAILABILITY],
    )
    content_hash = models.BinaryField(
        null=True,
        editable=False,
        help_text="Of the last source record applied; empty makes the next feed heal "
        "the row.",
    )
    hash_version = models.SmallIntegerField(default=0, editable=False)
    source_time = models.DateTimeField(null=True, blank=True, editable=False)
    modified_at = models.DateTimeField("modified at the source", null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True, db_default=Now())
    created_at = models.DateTimeField(auto_now_add=True, db_default=Now())
    withdrawn_at = models.DateTimeField(null=True, blank=True, editable=False)
    currency = models.CharField(max_length=3, blank=True)
    external_id = models.TextField()
    title = models.TextField()
    sku = models.TextField("SKU", blank=True)
    gtin = models.TextField("GTIN", blank=True)
    brand = models.TextField(blank=True)
    category = models.TextField(blank=True)
    url = models.TextField("URL", blank=True)
    image_url = models.TextField("image URL", blank=True)
    description = models.TextField(blank=True)
    locked_fields = ArrayField(
        models.CharField(max_length=30),
        default=list,
        db_default=[],
        blank=True,
        help_text="Fields an editor owns: no import and no event changes them.",
    )

    class Meta:
        # No index on updated_at: it would end PostgreSQL's in-page updates.
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["source", "external_id"], name="product_source_external_id"
            )
        ]

    def __str__(self) -> str:
        return self.title


class ImportRun(models.Model):
    """One execution of one source. Its job run alone knows running, lost, abandoned."""

    class Outcome(models.TextChoices):
        SUCCEEDED = "succeeded"
        PARTIAL = "partial"
        BLOCKED = "blocked"
        NOT_MODIFIED = "not_modified", "Not modified"
        DEFERRED = "deferred"
        FAILED = "failed"

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="runs")
    job_run = models.ForeignKey(
        "jobs.JobRun", on_delete=models.SET_NULL, null=True, related_name="import_runs"
    )
    mode = models.CharField(max_length=10, choices=Source.Mode)
    outcome = models.CharField(max_length=15, choices=Outcome, blank=True)
    complete = models.BooleanField(
        default=False,
        help_text="Every row the source has was read, and that is proved.",
    )
    error = models.TextField(blank=True)
    seen = models.PositiveIntegerField(default=0)
    created = models.PositiveIntegerField(default=0)
    updated = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)
    restored = models.PositiveIntegerField(default=0)
    invalid = models.PositiveIntegerField(default=0)
    duplicate = models.PositiveIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)
    retries = models.PositiveIntegerField(default=0)
    bytes_read = models.PositiveBigIntegerField(default=0)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-started_at"]
        indexes: ClassVar = [
            models.Index(fields=["source", "-started_at"], name="importrun_newest")
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(
                    seen=F("created")
                    + F("updated")
                    + F("unchanged")
                    + F("restored")
                    + F("invalid")
                    + F("duplicate")
                ),
                name="importrun_counts_sum",
            )
        ]

    def __str__(self) -> str:
        return f"{self.source} at {self.started_at:%Y-%m-%d %H:%M:%S}"


class RowIssue(models.Model):
    """One rejected row with its reason; at most 1,000 are kept per run."""

    run = models.ForeignKey(ImportRun, on_delete=models.CASCADE, related_name="issues")
    row = models.PositiveIntegerField(help_text="Counted from 1, over all pages.")
    external_id = models.TextField(blank=True)
    field = models.CharField(max_length=30, blank=True)
    code = models.CharField(max_length=30)
    message = models.TextField()
    raw = models.TextField(blank=True, help_text="The row as it came, cut at 4 kB.")

    class Meta:
        ordering = ["row"]

    def __str__(self) -> str:
        return f"row {self.row}: {self.message}"
