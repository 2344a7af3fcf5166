"""Waiting and handled messages in the admin: looked at, never changed.

Before it: `intake` and `inbox`, which write them. Imported by `admin`, `letter_admin`.
"""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from project.badges import moment
from streaming import badges, intake, payloads
from streaming.models import Attempt, HandledMessage, InboxMessage, Received


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A record of what happened."""

    show_full_result_count = False

    class Media:
        css = {"all": ["streaming/admin.css"]}

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = {"title": str(self.opts.verbose_name_plural).capitalize()}
        return super().changelist_view(request, title | (extra_context or {}))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def kept(message_id: int) -> InboxMessage | HandledMessage | None:
    """The message of this id, wherever it lies now."""
    for model in (InboxMessage, HandledMessage):
        rows = model.objects.select_related("incarnation__subscription")
        if found := rows.filter(pk=message_id).first():
            return found
    return None


def describe(message: Received | None) -> dict[str, Any]:
    """What payload.html shows of a message."""
    value = None if message is None else message.value
    failures = Attempt.objects.filter(message_id=message.pk if message else 0)
    return {
        "payload": payloads.show(None if value is None else bytes(value)),
        "headers": payloads.headers(message.headers if message else []),
        "failures": failures,
    }


class MessageAdmin(ReadOnlyAdmin):
    list_select_related = ("incarnation__subscription",)
    list_per_page = 50
    ordering = ("-id",)
    search_fields = ("=offset",)
    search_help_text = "A whole key or an offset."
    change_form_template = "admin/streaming/message_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("value", "headers")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        found = Q(key_hash=intake.key_hash(term.encode()))
        if term.isascii() and term.isdecimal() and len(term) < 19:
            found |= Q(offset=int(term))
        return queryset.filter(found), False

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        message = self.get_object(request, object_id)
        context = describe(message) | (extra_context or {})
        return super().change_view(request, object_id, form_url, context)

    @admin.display(description="message", ordering="id")
    def place(self, message: Received) -> SafeString:
        return format_html('<span class="stream-place">{}</span>', str(message))

    @admin.display(description="key", ordering="key_hash")
    def shown_key(self, message: Received) -> SafeString:
        key = None if message.key is None else bytes(message.key)
        return format_html('<span class="stream-key">{}</span>', payloads.key(key))

    @admin.display(description="received", ordering="received_at")
    def received(self, message: Received) -> SafeString | str:
        return moment(message.received_at)

    @admin.display(description="record time (UTC)")
    def record_time(self, message: Received) -> str:
        return badges.record_time(message.ts_ms)


@admin.register(InboxMessage)
class InboxMessageAdmin(MessageAdmin):
    list_display = ("place", "state", "shown_key", "attempts", "not_before", "received")
    list_filter = ("status", "incarnation__subscription")
    fields = (
        ("state", "attempts", "replay_no", "not_before"),
        ("place", "shown_key", "record_time"),
        ("received", "uid"),
    )

    @admin.display(description="state", ordering="status")
    def state(self, message: InboxMessage) -> SafeString:
        return badges.badge(str(message.get_status_display()))


@admin.register(HandledMessage)
class HandledMessageAdmin(MessageAdmin):
    list_display = ("place", "handler", "outcome", "shown_key", "attempts", "handled")
    list_filter = ("handler", "incarnation__subscription")
    fields = (
        ("handler", "outcome", "attempts", "replay_no"),
        ("place", "shown_key", "record_time"),
        ("received", "handled", "uid"),
    )

    @admin.display(description="handled", ordering="handled_at")
    def handled(self, message: HandledMessage) -> SafeString | str:
        return moment(message.handled_at)
