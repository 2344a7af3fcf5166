"""Fleets, devices with their tokens, and grants in the admin.

Before it: an operator. After it: `auth.create_token`, and signals that reach every open
socket within a second (`control`).
"""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from tracking import auth, badges
from tracking.models import Device, DeviceToken, Fleet, Grant
from tracking.position_admin import PositionAdmin

__all__ = ["DeviceAdmin", "FleetAdmin", "GrantAdmin", "PositionAdmin", "TokenAdmin"]

# What the operating systems recommend in the background, and our own 10 m rule.
PHONE_SETTINGS = {
    "accuracy": "medium",
    "distance": 10,
    "interval": 0,
    "angle": 30,
    "heartbeat": 60,
    "buffer": "true",
    "stop_detection": "true",
}


@admin.register(Fleet)
class FleetAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "devices", "active")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Fleet]:
        active = Count("devices", filter=Q(devices__active=True))
        fleets: QuerySet[Fleet] = super().get_queryset(request)
        return fleets.annotate(device_count=Count("devices"), active_count=active)

    @admin.display(description="devices", ordering="device_count")
    def devices(self, fleet: Any) -> SafeString:
        url = reverse("admin:tracking_device_changelist")
        query = urlencode({"fleet__id__exact": fleet.pk})
        return format_html('<a href="{}?{}">{}</a>', url, query, fleet.device_count)

    @admin.display(description="tracking now", ordering="active_count")
    def active(self, fleet: Any) -> int:
        count: int = fleet.active_count
        return count


class LiveChangeList(ChangeList):
    """The rows of a page learn from Redis, in one round trip, who spoke last when."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = badges.with_live(list(self.result_list))


class TokenInline(admin.TabularInline):  # type: ignore[type-arg]
    model = DeviceToken
    extra = 0
    fields = readonly_fields = ("prefix", "created_at", "last_used_at", "revoked_at")
    can_delete = False
    verbose_name_plural = "tokens (revoke them under Device tokens)"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Device)
class DeviceAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "fleet", "kind", "state", "last_seen", "place", "battery")
    list_filter = ("fleet", "kind", "active")
    list_select_related = ("fleet",)
    search_fields = ("name", "=id")
    fields = ("name", "fleet", "kind", "state", "last_seen", "place", "history")
    readonly_fields = ("state", "last_seen", "place", "history")
    inlines = (TokenInline,)
    change_form_template = "admin/tracking/device/change_form.html"

    class Media:
        css = {"all": ["tracking_admin/admin.css"]}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LiveChangeList

    def save_model(
        self, request: HttpRequest, obj: Device, form: Any, change: bool
    ) -> None:
        # Only what was edited: the flush moves the other columns meanwhile.
        obj.save(update_fields=form.changed_data if change else None)

    @admin.display(description="state", ordering="active")
    def state(self, device: Device) -> SafeString | str:
        return badges.state(device) if device.pk else "-"

    @admin.display(description="last seen", ordering="last_received_at")
    def last_seen(self, device: Device) -> SafeString | str:
        return badges.last_seen(device)

    @admin.display(description="last position", empty_value="-")
    def place(self, device: Device) -> str | None:
        if device.last_latitude is None or device.last_longitude is None:
            return None
        return f"{device.last_latitude:.5f}, {device.last_longitude:.5f}"

    @admin.display(description="battery", empty_value="-", ordering="last_battery_pct")
    def battery(self, device: Device) -> str | None:
        percent = device.last_battery_pct
        return None if percent is None else f"{percent:.0f} %"

    @admin.display(description="history")
    def history(self, device: Device) -> SafeString | str:
        if not device.pk:
            return "-"
        url = reverse("admin:tracking_position_changelist")
        query = urlencode({"device__id__exact": device.pk})
        return format_html('<a href="{}?{}">All its positions</a>', url, query)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(require_POST(self.create_token))
        own = path("<int:device_id>/token/", view, name="tracking_device_token")
        return [own, *super().get_urls()]

    def create_token(self, request: HttpRequest, device_id: int) -> HttpResponse:
        """Makes a token and shows it, this once, with what a phone has to be told."""
        if not request.user.has_perm("tracking.add_devicetoken"):
            raise PermissionDenied
        device = get_object_or_404(Device, pk=device_id)
        token = auth.create_token(device)
        self.log_change(request, device, f"Created the token {token[:8]}….")
        context = self.admin_site.each_context(request) | phone_setup(request, token)
        context |= {
            "device": device,
            "token": token,
            "title": f"Token of {device}",
            "opts": self.opts,
        }
        response = TemplateResponse(
            request, "admin/tracking/device/token.html", context
        )
        response["Cache-Control"] = "no-store"
        return response


def phone_setup(request: HttpRequest, token: str) -> dict[str, str]:
    """The addresses that set up each kind of sender."""
    door = request.build_absolute_uri(reverse("osmand", args=[token]))
    page = request.build_absolute_uri(reverse("phone"))
    socket = request.build_absolute_uri("/ws/device/").replace("http", "ws", 1)
    return {
        "osmand_url": door,
        "traccar_url": f"{door}?{urlencode({'id': token[:8]} | PHONE_SETTINGS)}",
        "phone_url": f"{page}#token={token}",
        "socket_url": socket,
    }


@admin.register(DeviceToken)
class TokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("prefix", "device", "created_at", "last_used_at", "revoked_at")
    list_select_related = ("device",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("^prefix", "device__name")
    readonly_fields = ("device", "prefix", "created_at", "last_used_at", "revoked_at")
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.action(description="Revoke selected tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[DeviceToken]) -> None:
        revoked = 0
        for token in tokens.filter(revoked_at=None).select_related("device"):
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            self.log_change(request, token, "Revoked.")
            revoked += 1
        self.message_user(request, f"{revoked} revoked; open sockets are cut off.")


@admin.register(Grant)
class GrantAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("user", "what", "expires_at", "is_valid")
    list_filter = ("fleet",)
    list_select_related = ("user", "fleet", "device")
    search_fields = ("user__username", "device__name")
    autocomplete_fields = ("fleet", "device")

    @admin.display(description="sees")
    def what(self, grant: Grant) -> str:
        return f"fleet {grant.fleet}" if grant.fleet else f"device {grant.device}"

    @admin.display(description="valid", boolean=True)
    def is_valid(self, grant: Grant) -> bool:
        return grant.expires_at is None or grant.expires_at > timezone.now()
