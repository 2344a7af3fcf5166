"""The project as a Django app, and Django's admin with our site in it."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class ProjectConfig(AppConfig):
    name = "project"
    label = "project"
    verbose_name = "Drover"
    default = True

    def ready(self) -> None:
        from project import checks  # noqa: F401, PLC0415


class DroverAdminConfig(AdminConfig):
    default_site = "project.admin.DroverAdminSite"
