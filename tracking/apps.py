from django.apps import AppConfig
from django.db.models.signals import post_migrate


class TrackingConfig(AppConfig):
    name = "tracking"
    verbose_name = "Live tracking"

    def ready(self) -> None:
        from tracking import checks, control, tasks  # noqa: F401, PLC0415

        control.connect()
        post_migrate.connect(tasks.ensure_schedules, sender=self)
