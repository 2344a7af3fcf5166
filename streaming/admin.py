"""Subscriptions and partitions in the admin: where streaming stands, from the database.

Before it: `consumer` samples the ends of the logs. Messages are in `message_admin`, dead
letters in `letter_admin`; both are registered from here.
"""

from typing import Any

from django.contrib import admin
from django.db.models import Count, F, Min, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from project.badges import moment
from streaming.letter_admin import DeadLetterAdmin
from streaming.message_admin import (
    HandledMessageAdmin,
    InboxMessageAdmin,
    ReadOnlyAdmin,
)
from streaming.models import (
    Cursor,
    DeadLetter,
    InboxMessage,
    Subscription,
    TopicIncarnation,
)

__all__ = [
    "CursorAdmin",
    "DeadLetterAdmin",
    "HandledMessageAdmin",
    "InboxMessageAdmin",
    "SubscriptionAdmin",
]


@admin.register(Subscription)
class SubscriptionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = (
        "topic",
        "group",
        "enabled",
        "lag",
        "backlog",
        "oldest",
        "dead",
        "sampled",
    )
    list_filter = ("group", "enabled")
    fields = ("topic", "group", "ordering", "start", "enabled")

    class Media:
        css = {"all": ["streaming/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Subscription]:
        newest = TopicIncarnation.objects.filter(subscription=OuterRef("pk"))
        ready = InboxMessage.objects.filter(
            status=InboxMessage.Status.READY, incarnation__subscription=OuterRef("pk")
        )
        letters = DeadLetter.objects.filter(state="new", subscription=OuterRef("pk"))
        cursors = Cursor.objects.filter(incarnation=OuterRef("newest"))
        behind = cursors.filter(log_end__gt=F("next_offset"))
        rows: QuerySet[Subscription] = super().get_queryset(request)
        return rows.annotate(
            newest=Subquery(newest.order_by("-id").values("id")[:1])
        ).annotate(
            lag=_one(behind, "incarnation", Sum(F("log_end") - F("next_offset"))),
            backlog=_one(ready, "incarnation__subscription", Count("id")),
            oldest=_one(ready, "incarnation__subscription", Min("received_at")),
            dead=_one(letters, "subscription", Count("id")),
            sampled=_one(cursors, "incarnation", Min("sampled_at")),
        )

    def get_readonly_fields(
        self, request: HttpRequest, obj: Subscription | None = None
    ) -> tuple[str, ...]:
        # What is in the lanes was put there by these.
        return ("topic", "group", "ordering") if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(
        self, request: HttpRequest, obj: Subscription, form: Any, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        obj.ensure_lanes()

    @admin.display(description="broker lag")
    def lag(self, subscription: Any) -> str:
        """Records in Kafka that are not in the inbox yet."""
        return f"{subscription.lag or 0:,}" if subscription.sampled else "-"

    @admin.display(description="backlog")
    def backlog(self, subscription: Any) -> SafeString:
        url = reverse("admin:streaming_inboxmessage_changelist")
        return format_html(
            '<a href="{}?status__exact=0&incarnation__subscription__id__exact={}">{}</a>',
            url,
            subscription.pk,
            f"{subscription.backlog or 0:,}",
        )

    @admin.display(description="oldest waiting")
    def oldest(self, subscription: Any) -> SafeString | str:
        return moment(subscription.oldest)

    @admin.display(description="dead letters")
    def dead(self, subscription: Any) -> SafeString:
        url = reverse("admin:streaming_deadletter_changelist")
        return format_html(
            '<a href="{}?state__exact=new&subscription__id__exact={}">{}</a>',
            url,
            subscription.pk,
            f"{subscription.dead or 0:,}",
        )

    @admin.display(description="sampled")
    def sampled(self, subscription: Any) -> SafeString | str:
        return moment(subscription.sampled)


def _one(rows: QuerySet[Any], by: str, what: Any) -> Subquery:
    """One aggregate of the outer row's rows."""
    return Subquery(rows.order_by().values(by).annotate(x=what).values("x")[:1])


@admin.register(Cursor)
class CursorAdmin(ReadOnlyAdmin):
    list_display = (
        "__str__",
        "incarnation",
        "next_offset",
        "end",
        "lag",
        "moved",
        "sampled",
    )
    list_filter = ("incarnation__subscription",)
    list_select_related = ("incarnation__subscription",)

    @admin.display(description="end of the log", ordering="log_end")
    def end(self, cursor: Cursor) -> str:
        """As sampled, but never before what was read since then."""
        if cursor.log_end is None:
            return "-"
        return str(max(cursor.log_end, cursor.next_offset))

    @admin.display(
        description="lag", ordering=Coalesce("log_end", 0) - F("next_offset")
    )
    def lag(self, cursor: Cursor) -> str:
        if cursor.log_end is None:
            return "-"
        return f"{max(0, cursor.log_end - cursor.next_offset):,}"

    @admin.display(description="moved", ordering="moved_at")
    def moved(self, cursor: Cursor) -> SafeString | str:
        return moment(cursor.moved_at)

    @admin.display(description="sampled", ordering="sampled_at")
    def sampled(self, cursor: Cursor) -> SafeString | str:
        return moment(cursor.sampled_at)
