from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "project.jobs"
    label = "jobs"
    verbose_name = "Scheduled jobs"
