"""Django's admin app with our site in it (apart from `apps`, which may have one default)."""

from django.contrib.admin.apps import AdminConfig


class DroverAdminConfig(AdminConfig):
    default = False
    default_site = "project.admin.DroverAdminSite"
