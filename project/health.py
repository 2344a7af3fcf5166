"""Is this process alive, and can it do its work? For load balancers and people."""

import logging
from collections.abc import Callable

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

from project.redis import sync_client

logger = logging.getLogger(__name__)


def healthz(_request: HttpRequest) -> JsonResponse:
    """The process answers; says nothing about what it depends on."""
    return JsonResponse({"status": "ok"})


def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when database, migrations and Redis are usable, else 503 with the reason.

    Kafka away is only `degraded`: imports and tracking go on without it.
    """
    parts = {name: check() for name, check in CHECKS.items()}
    failed = any(reason for reason in parts.values())
    report = {name: reason or "ok" for name, reason in parts.items()}
    report["kafka"] = (
        "ok"
        if settings.KAFKA_BOOTSTRAP_SERVERS
        else "degraded: KAFKA_BOOTSTRAP_SERVERS is not set"
    )
    status = "failed" if failed else ("ok" if report["kafka"] == "ok" else "degraded")
    return JsonResponse({"status": status, **report}, status=503 if failed else 200)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return f"DATABASE_URL is not reachable: {_first_line(error)}"
    return ""


def _migrations() -> str:
    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return f"unknown: {_first_line(error)}"
    return f"{len(plan)} not applied: run `manage.py migrate`" if plan else ""


def _redis() -> str:
    try:
        with sync_client("jobs") as client:
            client.ping()
    except redis.RedisError as error:
        return f"REDIS_URL is not reachable: {_first_line(error)}"
    return ""


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "redis": _redis,
}
