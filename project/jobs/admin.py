"""Jobs and their runs in the admin: who holds what, what ran last and how it ended.

Before it: `overview` reads. After it: Run now and pause, each with its own permission.
"""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError as BrokerDown

from project.jobs import badges
from project.jobs.models import JobLease, JobRun, State
from project.jobs.overview import JobStatus, statuses
from project.jobs.run_admin import STYLE, JobRunAdmin, ReadOnly
from project.jobs.schedule_admin import ScheduleAdmin
from project.jobs.scheduling import job_named

__all__ = ["JobAdmin", "JobRunAdmin", "ScheduleAdmin"]

RECENT = 10


class JobChangeList(ChangeList):
    """Reads the status of a page of jobs at once, not job by job."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        jobs = list(self.result_list)
        for status in statuses(jobs):
            vars(status.job)["status"] = status
        self.result_list = jobs


def status_of(job: JobLease) -> JobStatus:
    """As the change list has read it, else read now."""
    known: JobStatus | None = vars(job).get("status")
    return known or statuses([job])[0]


@admin.register(JobLease)
class JobAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("job", "now", "outcome", "next_run", "fence")
    list_filter = ("paused", "name")
    search_fields = ("job_key",)
    actions = ("run_now", "pause", "resume")
    readonly_fields = fields = (
        *("now", "last_run", "last_success", "schedule", "next_run"),
        *("fence", "recent_runs"),
    )

    class Media:
        css = STYLE

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobChangeList

    @admin.display(description="job", ordering="job_key")
    def job(self, job: JobLease) -> SafeString:
        return badges.with_note(job.job_key, self.schedule(job))

    @admin.display(description="now")
    def now(self, job: JobLease) -> SafeString:
        status = status_of(job)
        if status.running is None:
            if job.paused:
                return badges.badge("warn", "‖", "paused")
            return badges.badge("quiet", "·", "waiting")
        running = status.running
        badge = badges.state_badge(running)
        if status.is_stale:
            badge = badges.badge("bad", "☠", "no heartbeat")
        since = format_html(
            "{}, since {}", running.holder, badges.moment(running.started_at)
        )
        return badges.with_note(badge, since)

    @admin.display(description="last outcome")
    def last_run(self, job: JobLease) -> SafeString | str:
        last = status_of(job).last
        if last is None:
            return "never ran"
        age = badges.moment(last.finished_at or last.tick)
        url = reverse("admin:jobs_jobrun_change", args=[last.pk])
        return format_html('<a href="{}">{}</a> {}', url, badges.state_badge(last), age)

    @admin.display(description="last outcome")
    def outcome(self, job: JobLease) -> SafeString:
        success = self.last_success(job)
        note = format_html("last success {}", success) if success != "-" else ""
        return badges.with_note(self.last_run(job), note)

    @admin.display(description="last success")
    def last_success(self, job: JobLease) -> SafeString | str:
        return badges.moment(status_of(job).last_success)

    @admin.display(description="schedule")
    def schedule(self, job: JobLease) -> str:
        return status_of(job).schedule_text or "by hand only"

    @admin.display(description="next run")
    def next_run(self, job: JobLease) -> SafeString | str:
        return badges.moment(status_of(job).next_tick)

    @admin.display(description="newest runs")
    def recent_runs(self, job: JobLease) -> SafeString | str:
        runs = JobRun.objects.filter(job_key=job.job_key)[:RECENT]
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            (
                (
                    badges.state_badge(run),
                    badges.moment(run.tick),
                    badges.duration(run.duration),
                    badges.counts(run),
                    run.reason[:120],
                )
                for run in runs
            ),
        )
        head = "<thead><tr><th>State<th>Tick<th>Took<th>Counts<th>Reason</thead>"
        table = '<table class="job-runs">' + head + "<tbody>{}</tbody></table>"
        return format_html(table, rows) if rows else "It has never run."

    # --- Run now, pause, resume

    def has_run_job_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.run_job")

    def has_pause_job_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.pause_job")

    @admin.action(description="Run now", permissions=["run_job"])
    def run_now(self, request: HttpRequest, jobs: QuerySet[JobLease]) -> None:
        for job in jobs:
            self._queue(request, job)

    @admin.action(description="Pause (skip scheduled runs)", permissions=["pause_job"])
    def pause(self, request: HttpRequest, jobs: QuerySet[JobLease]) -> None:
        self._set_paused(request, jobs, paused=True)

    @admin.action(description="Resume", permissions=["pause_job"])
    def resume(self, request: HttpRequest, jobs: QuerySet[JobLease]) -> None:
        self._set_paused(request, jobs, paused=False)

    def _set_paused(
        self, request: HttpRequest, jobs: QuerySet[JobLease], *, paused: bool
    ) -> None:
        verb = "paused" if paused else "resumed"
        for job in jobs.exclude(paused=paused):
            # One field: the fence belongs to the claims.
            JobLease.objects.filter(pk=job.pk).update(paused=paused)
            self.log_change(request, job, verb)
            self.message_user(request, f"{job} is {verb}.")

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(require_POST(self.run_view))
        return [
            path("<path:pk>/run/", view, name="jobs_joblease_run"),
            *super().get_urls(),
        ]

    def run_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        if not self.has_run_job_permission(request):
            raise PermissionDenied
        job = get_object_or_404(JobLease, pk=unquote(pk))
        self._queue(request, job)
        url = reverse("admin:jobs_joblease_change", args=[quote(job.pk)])
        return HttpResponseRedirect(url)

    def _queue(self, request: HttpRequest, job: JobLease) -> None:
        task = job_named(job.name)
        if task is None:
            text = f"{job} is started by its own command only."
            self.message_user(request, text, messages.WARNING)
            return
        try:
            run = task.run_now(**job.arguments)
        except BrokerDown as down:
            text = f"{job} is queued, but REDIS_URL does not answer: {down}"
            self.message_user(request, text, messages.ERROR)
            return
        self.log_change(request, job, "Run now")
        if run.state == State.RUNNING:
            text = f"{job} is running already: {run.holder}."
            self.message_user(request, text, messages.WARNING)
        else:
            self.message_user(request, f"{job} is queued.")

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        may_run = self.has_run_job_permission(request)
        context = {**(extra_context or {}), "may_run": may_run}
        return super().change_view(request, object_id, form_url, context)
