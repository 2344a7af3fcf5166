from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "project"
    label = "project"
    verbose_name = "Drover"

    def ready(self) -> None:
        from project import checks  # noqa: F401, PLC0415
