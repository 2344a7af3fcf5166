"""The Celery application of every worker and beat process."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("drover")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
