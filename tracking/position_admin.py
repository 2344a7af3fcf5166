"""The history in the admin: looked at, never changed, never counted.

Before it: `tracking.history`, which writes it. Imported by `tracking.admin`.
"""

from functools import cached_property
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import connection
from django.http import HttpRequest

from tracking.models import Position

MOST_COUNTED = 10_000


class EstimatingPaginator(Paginator):  # type: ignore[type-arg]
    """No COUNT(*): the statistics for the whole table, a capped count for a part."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        if not rows.query.where:
            estimate = _estimate(rows.model._meta.db_table)
            if estimate > MOST_COUNTED:
                return estimate
        counted: int = rows.order_by()[: MOST_COUNTED + 1].count()
        return counted


def _estimate(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [table]
        )
        row = cursor.fetchone()
    return int(row[0]) if row else 0


@admin.register(Position)
class PositionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = (
        "device",
        "fixed_at",
        "place",
        "accuracy",
        "speed",
        "live",
        "door",
        "received_at",
    )
    list_filter = ("reason",)
    list_select_related = ("device",)
    list_per_page = 50
    ordering = ("-id",)
    show_full_result_count = False
    paginator = EstimatingPaginator

    class Media:
        css = {"all": ["tracking_admin/admin.css"]}

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        known = lookup == "device__id__exact"
        return known or super().lookup_allowed(lookup, value, request)

    @admin.display(description="position")
    def place(self, position: Position) -> str:
        return f"{position.latitude:.5f}, {position.longitude:.5f}"

    @admin.display(description="accuracy", empty_value="-")
    def accuracy(self, position: Position) -> str | None:
        metres = position.accuracy_m
        return None if metres is None else f"± {metres:.0f} m"

    @admin.display(description="speed", empty_value="-")
    def speed(self, position: Position) -> str | None:
        mps = position.speed_mps
        return None if mps is None else f"{mps * 3.6:.0f} km/h"

    @admin.display(description="live map")
    def live(self, position: Position) -> str:
        return position.get_reason_display()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
