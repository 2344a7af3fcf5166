"""The admin site: grouped and named as an operator would, not by Django app."""

from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest

# What people look at every day comes first.
ORDER = ["jobs", "products", "streaming", "tracking", "auth"]
# Within a group: what one looks at first; the rest follows by name.
MODEL_ORDER = [
    *("JobLease", "JobRun", "PeriodicTask"),
    *("Source", "Product", "ImportRun", "RowIssue"),
    *("DeadLetter", "Subscription", "Cursor", "InboxMessage", "HandledMessage"),
    *("Device", "Fleet", "Grant", "DeviceToken", "Position"),
]
RENAMED = {"PeriodicTask": "Schedules"}
# Schedules belong to the jobs that they start.
SHOWN_UNDER = {"django_celery_beat": "jobs"}


class DroverAdminSite(AdminSite):
    site_header = "Drover"
    site_title = "Drover"
    index_title = "Operations"
    site_url = None  # The header links to the live map by its name.
    enable_nav_sidebar = True

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, Any]]:
        """Groups in the order of `ORDER`; the other apps follow by name."""
        if app_label is not None:
            return super().get_app_list(request, app_label)
        groups = {group["app_label"]: group for group in super().get_app_list(request)}
        for label, target in SHOWN_UNDER.items():
            moved = groups.pop(label, None)
            if moved and target in groups:
                groups[target]["models"] += moved["models"]
            elif moved:
                groups[target] = moved | {
                    "app_label": target,
                    "name": apps.get_app_config(target).verbose_name,
                }
        for group in groups.values():
            for model in group["models"]:
                model["name"] = RENAMED.get(model["object_name"], model["name"])
            group["models"].sort(key=_model_position)
        return sorted(groups.values(), key=_position)


def _position(group: dict[str, Any]) -> tuple[int, str]:
    label = group["app_label"]
    return (ORDER.index(label) if label in ORDER else len(ORDER), group["name"])


def _model_position(model: dict[str, Any]) -> tuple[int, str]:
    name = model["object_name"]
    listed = name in MODEL_ORDER
    return (MODEL_ORDER.index(name) if listed else len(MODEL_ORDER), model["name"])
