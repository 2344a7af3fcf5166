"""Every HTTP address: admin, health, metrics, and what tracking serves."""

from django.contrib import admin
from django.urls import include, path

from project import health, metrics

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("", include("tracking.urls")),
]
