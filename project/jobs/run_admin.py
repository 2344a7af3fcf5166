"""Job runs in the admin: a record to read, filter and search; nothing to change.

Before it: `claim`, `heartbeat` and `lease` wrote the rows.
"""

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
    list_display = ("badge", "job_key", "when", "took", "what")
    list_display_links = ("badge", "job_key")
    list_filter = ("state", "trigger", "job_key")
    search_fields = ("^job_key", "holder", "reason")
    search_help_text = "Start of a job's name, a host, or words of a reason"
    show_full_result_count = False
    readonly_fields = fields = (
        *("badge", "job_key", "tick_at", "trigger", "attempt"),
        *("began", "ended", "took", "reason", "counted", "holder", "heartbeat"),
        *("fence", "ttl_seconds"),
    )

    class Media:
        css = STYLE

    @admin.display(description="state", ordering="state")
    def badge(self, run: JobRun) -> SafeString:
        return badges.state_badge(run)

    @admin.display(description="tick", ordering="tick")
    def when(self, run: JobRun) -> SafeString:
        notes = [run.get_trigger_display()]
        if run.attempt > 1:
            notes.append(f"attempt {run.attempt}")
        exact = f"{run.tick:%d %b %H:%M:%S}"
        age = format_html("{}, {}", badges.moment(run.tick), ", ".join(notes))
        return badges.with_note(exact, age)

    @admin.display(description="took")
    def took(self, run: JobRun) -> str:
        return badges.duration(run.duration)

    @admin.display(description="counts")
    def counted(self, run: JobRun) -> SafeString | str:
        return badges.counts(run)

    @admin.display(description="what happened, and where")
    def what(self, run: JobRun) -> SafeString:
        numbers = badges.counts(run) if run.counts else ""
        told = format_html("{} {}", numbers, run.reason[:160])
        # Host and process; the task's long id stands on the run's own page.
        return badges.with_note(told, run.holder.partition(" / task ")[0])

    @admin.display(description="tick")
    def tick_at(self, run: JobRun) -> SafeString | str:
        return badges.exact(run.tick)

    @admin.display(description="started")
    def began(self, run: JobRun) -> SafeString | str:
        return badges.exact(run.started_at)

    @admin.display(description="finished")
    def ended(self, run: JobRun) -> SafeString | str:
        return badges.exact(run.finished_at)

    @admin.display(description="last heartbeat")
    def heartbeat(self, run: JobRun) -> SafeString | str:
        return badges.exact(run.heartbeat_at)
