"""Prometheus metrics: one address for every process of this machine.

Every counter is declared beside the code that moves it. With
PROMETHEUS_MULTIPROC_DIR set, processes write into files of that folder and
`/metrics` of any web process adds them up; without it, it shows its own process.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector


def collect() -> bytes:
    """The text exposition of all counters, UTF-8."""
    if not settings.PROMETHEUS_MULTIPROC_DIR:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def metrics(_request: HttpRequest) -> HttpResponse:
    return HttpResponse(collect(), content_type=CONTENT_TYPE_LATEST)
