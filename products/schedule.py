"""When a source is imported: one row of django-celery-beat, edited in the admin.

Before it: the admin form and `demo_shop --register`. After it: beat.
"""

from django_celery_beat.models import PeriodicTask

from products.models import Source
from project.jobs.schedules import ensure_interval

TASK = "products.import_products"
HOURLY_S = 3600


def ensure_schedule(source: Source, every_seconds: int = HOURLY_S) -> None:
    """Give the source a schedule if it has none; an operator's edit is kept."""
    ensure_interval(
        f"import {source.slug}", TASK, every_seconds, {"source_id": source.pk}
    )


def remove_schedule(source: Source) -> None:
    PeriodicTask.objects.filter(name=f"import {source.slug}").delete()
