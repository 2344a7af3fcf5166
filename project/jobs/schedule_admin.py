"""Schedules in the admin, hardened: only who may change one may run, enable or disable it.

Before it: django-celery-beat's own pages, whose actions ask for no permission at all.
After it: `schedules.remember_job`; beat notices the change within seconds.
"""

import json
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_celery_beat import admin as stock
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
    SolarSchedule,
)
from kombu.exceptions import OperationalError as BrokerDown

from project.celery import app
from project.jobs import badges
from project.jobs.models import State
from project.jobs.overview import next_run, words
from project.jobs.run_admin import STYLE
from project.jobs.schedules import remember_job
from project.jobs.scheduling import job_of_task
from project.strict_json import loads

for model in (PeriodicTask, *(ClockedSchedule, CrontabSchedule, IntervalSchedule)):
    admin.site.unregister(model)
# The beat scheduler refuses them.
admin.site.unregister(SolarSchedule)


class ScheduleForm(stock.PeriodicTaskForm):  # type: ignore[misc]
    """Arguments that do not fit the job are refused here, not in a worker's log."""

    def clean_args(self) -> str:
        return self._json("args", list, "a list: [1, 2]")

    def clean_kwargs(self) -> str:
        return self._json("kwargs", dict, 'an object: {"source_id": 1}')

    def _json(self, field: str, kind: type, expected: str) -> str:
        text: str = self.cleaned_data[field]
        try:
            value = loads(text)
        except ValueError as error:
            raise forms.ValidationError(f"No usable JSON: {error}") from error
        if not isinstance(value, kind):
            raise forms.ValidationError(f"Write {expected}.")
        return text

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean()
        job = job_of_task(data["task"])
        if job is not None and not {"args", "kwargs"} & set(self.errors):
            try:
                job.arguments_of(
                    *json.loads(data["args"]), **json.loads(data["kwargs"])
                )
            except TypeError as error:
                self.add_error("kwargs", f"They do not fit the job: {error}.")
        return data


@admin.register(PeriodicTask)
class ScheduleAdmin(stock.PeriodicTaskAdmin):  # type: ignore[misc]
    form = ScheduleForm
    list_display = ("name", "is_on", "when", "next_run", "what")
    list_filter = ("enabled", "task")
    date_hierarchy = None
    actions = ("run_tasks", "enable_tasks", "disable_tasks")
    fieldsets = (
        (None, {"fields": ("name", "regtask", "task", "enabled", "description")}),
        (
            "When (choose one)",
            {
                "fields": (
                    *("interval", "crontab", "crontab_translation", "clocked"),
                    *("one_off", "start_time", "expires", "last_run_at"),
                )
            },
        ),
        ("What it gets", {"fields": ("args", "kwargs")}),
    )

    class Media:
        css = STYLE

    @admin.display(description="state", ordering="enabled")
    def is_on(self, row: PeriodicTask) -> SafeString:
        if row.enabled:
            return badges.badge("good", "●", "on")
        return badges.badge("quiet", "○", "off")

    @admin.display(description="schedule")
    def when(self, row: PeriodicTask) -> str:
        return words(row)

    @admin.display(description="starts", ordering="task")
    def what(self, row: PeriodicTask) -> SafeString:
        return badges.with_note(row.task, row.kwargs)

    @admin.display(description="next run")
    def next_run(self, row: PeriodicTask) -> SafeString | str:
        following = next_run(row, timezone.now()) if row.enabled else None
        sent = ""
        if row.last_run_at:
            sent = format_html("sent {}", badges.moment(row.last_run_at))
        return badges.with_note(badges.moment(following), sent)

    def save_model(
        self, request: HttpRequest, obj: PeriodicTask, form: Any, change: bool
    ) -> None:
        if change and obj.enabled and "enabled" in form.changed_data:
            # It waits for its next tick; what it missed while it was off stays missed.
            obj.last_run_at = timezone.now()
        super().save_model(request, obj, form, change)
        remember_job(obj)

    @admin.action(description="Enable", permissions=["change"])
    def enable_tasks(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset.filter(enabled=False), enabled=True)

    @admin.action(description="Disable (keeps its history)", permissions=["change"])
    def disable_tasks(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset.filter(enabled=True), enabled=False)

    def _switch(
        self, request: HttpRequest, rows: QuerySet[Any], *, enabled: bool
    ) -> None:
        verb = "enabled" if enabled else "disabled"
        changes = {"last_run_at": timezone.now()} if enabled else {}
        switched = list(rows)
        for row in switched:
            PeriodicTask.objects.filter(pk=row.pk).update(enabled=enabled, **changes)
            self.log_change(request, row, verb)
        PeriodicTasks.update_changed()
        self.message_user(request, f"{len(switched)} {verb}.")

    @admin.action(description="Run now", permissions=["change"])
    def run_tasks(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            try:
                text, level = _run(row)
            except (ValueError, TypeError) as error:
                text, level = f"its arguments do not fit: {error}", messages.ERROR
            except BrokerDown as down:
                text, level = f"REDIS_URL does not answer: {down}", messages.ERROR
            else:
                self.log_change(request, row, "Run now")
            self.message_user(request, f"{row.name}: {text}", level)


def _run(row: PeriodicTask) -> tuple[str, int]:
    """Queue it once by hand; what to tell, and how loud."""
    args, kwargs = json.loads(row.args or "[]"), json.loads(row.kwargs or "{}")
    job = job_of_task(row.task)
    if job is None:
        app.send_task(row.task, args, kwargs)
        return "sent.", messages.SUCCESS
    run = job.run_now(*args, **kwargs)
    if run.state == State.RUNNING:
        return f"is running already: {run.holder}.", messages.WARNING
    return "is queued.", messages.SUCCESS


class PartOfSchedule(stock.ScheduleAdmin):  # type: ignore[misc]
    """Made and edited from a schedule's own page; not an item of the index."""

    def has_module_permission(self, _request: HttpRequest) -> bool:
        return False


admin.site.register(
    (IntervalSchedule, CrontabSchedule, ClockedSchedule), PartOfSchedule
)
