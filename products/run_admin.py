"""Import runs and refused rows in the admin: records, looked at and never changed.

Before it: `importer`, which writes them. After it: the operator. Imported by `admin`.
"""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from products import badges
from products.models import ImportRun, RowIssue
from project.badges import moment

SHOWN_ISSUES = 100


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A record of what happened."""

    actions = None
    show_full_result_count = False

    class Media:
        css = {"all": ["products/admin.css"]}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class FirstIssues(BaseInlineFormSet):  # type: ignore[type-arg]
    """A page of a thousand rows helps nobody; the list of issues has them all."""

    def get_queryset(self) -> Any:
        if not hasattr(self, "_first"):
            self._first = list(super().get_queryset()[:SHOWN_ISSUES])
        return self._first


class RowIssueInline(admin.TabularInline):  # type: ignore[type-arg]
    model = RowIssue
    formset = FirstIssues
    fields = ("row", "external_id", "field", "code", "message", "raw_start")
    readonly_fields = fields
    can_delete = False
    verbose_name_plural = f"refused rows (the first {SHOWN_ISSUES})"

    @admin.display(description="row as it came")
    def raw_start(self, issue: RowIssue) -> SafeString:
        return format_html('<code title="{}">{}</code>', issue.raw, issue.raw[:120])

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(ImportRun)
class ImportRunAdmin(ReadOnlyAdmin):
    list_display = (
        "started",
        "source",
        "state",
        "counts",
        "duration",
    )
    list_display_links = ("started", "state")
    list_filter = ("outcome", "source")
    list_select_related = ("source", "job_run")
    list_per_page = 50
    inlines = (RowIssueInline,)
    fieldsets = (
        (None, {"fields": ("source", "state", "error", "complete", "mode")}),
        (
            "Rows",
            {
                "fields": (
                    ("seen", "created", "updated", "unchanged"),
                    ("restored", "invalid", "duplicate"),
                ),
                "description": "Every row seen has exactly one of these outcomes.",
            },
        ),
        ("Cost", {"fields": (("requests", "retries", "bytes_read"),)}),
        ("Times", {"fields": ("started", "finished_at", "duration", "job_run")}),
    )

    @admin.display(description="started", ordering="started_at")
    def started(self, run: ImportRun) -> SafeString | str:
        return moment(run.started_at)

    @admin.display(description="outcome", ordering="outcome")
    def state(self, run: ImportRun) -> SafeString:
        return badges.run_badge(run)

    @admin.display(description="rows")
    def counts(self, run: ImportRun) -> SafeString | str:
        return badges.counts(run) if run.finished_at else "-"

    @admin.display(description="took")
    def duration(self, run: ImportRun) -> str:
        if run.finished_at is None:
            return "-"
        return f"{(run.finished_at - run.started_at).total_seconds():.1f} s"


@admin.register(RowIssue)
class RowIssueAdmin(ReadOnlyAdmin):
    list_display = ("row", "external_id", "field", "code", "message", "run")
    list_filter = ("code", "field", "run__source")
    list_select_related = ("run__source",)
    search_fields = ("=external_id", "=code")

    def get_queryset(self, request: HttpRequest) -> QuerySet[RowIssue]:
        return super().get_queryset(request).defer("raw")

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        return lookup == "run__id__exact" or super().lookup_allowed(
            lookup, value, request
        )
