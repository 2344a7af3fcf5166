"""The Celery application of every worker and beat process."""

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging, worker_init
from django.core.exceptions import ImproperlyConfigured

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("drover")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery would set its own level and format; `project.logs` has done both."""


@worker_init.connect
@beat_init.connect
def refuse_bad_settings(**_: Any) -> None:
    """A worker or beat with unusable settings ends at once and says why."""
    # Needs the loaded apps, which this module must not import.
    from project import checks  # noqa: PLC0415

    try:
        checks.refuse_bad_settings()
    except ImproperlyConfigured as problem:
        raise SystemExit(str(problem)) from problem
