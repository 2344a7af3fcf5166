"""Job runs in the admin: a record to read, filter and search; nothing to change.

Before it: `claim`, `heartbeat` and `lease` wrote the rows.
"""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from project.jobs import badges
from project.jobs.models import JobRun

STYLE = {"all": ["jobs/admin.css"]}


class ReadOnly:
    """A record of what happened: seen by those who may view it, changed by nobody."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(
        self, request: HttpRequest, obj: Model | None = None
    ) -> bool:
        return False

    def has_delete_permission(
        self, request: HttpRequest, obj: Model | None = None
    ) -> bool:
        return False


@admin.register(JobRun)
class JobRunAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = (
        "badge",
        "job_key",
        "when",
        "trigger",
        "attempt",
        "took",
        "counted",
        "who_and_why",
    )
    list_display_links = ("badge", "job_key")
    list_filter = ("state", "trigger", "job_key")
    search_fields = ("^job_key", "holder", "reason")
    search_help_text = "Start of a job's name, a host, or words of a reason"
    show_full_result_count = False
    fields = (
        ("badge", "job_key"),
        ("tick", "trigger", "attempt"),
        ("started_at", "finished_at", "took"),
        "reason",
        "counted",
        ("holder", "heartbeat_at"),
        ("fence", "ttl_seconds"),
    )

    class Media:
        css = STYLE

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [
            *("badge", "job_key", "tick", "trigger", "attempt", "started_at"),
            *("finished_at", "took", "reason", "counted", "holder", "heartbeat_at"),
            *("fence", "ttl_seconds"),
        ]

    @admin.display(description="state", ordering="state")
    def badge(self, run: JobRun) -> SafeString:
        return badges.state_badge(run)

    @admin.display(description="tick", ordering="tick")
    def when(self, run: JobRun) -> SafeString:
        exact = f"{run.tick:%d %b %H:%M:%S}"
        return format_html("{} ({})", exact, badges.moment(run.tick))

    @admin.display(description="took")
    def took(self, run: JobRun) -> str:
        return badges.duration(run.duration)

    @admin.display(description="counts")
    def counted(self, run: JobRun) -> SafeString | str:
        return badges.counts(run)

    @admin.display(description="by whom, why")
    def who_and_why(self, run: JobRun) -> SafeString | str:
        parts = [part for part in (run.reason[:160], run.holder) if part]
        return format_html('<span class="holder">{}</span>', " · ".join(parts) or "-")
