"""System check: Redis must keep what it has accepted.

Before it: `manage.py check`, every command, and the web process at its start. After it:
the buffer of accepted fixes can be trusted to be there after a restart.
"""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, register
from redis import RedisError

from project.redis import sync_client


@register("drover")
def check_append_only_file(**_: Any) -> list[CheckMessage]:
    """Refuses a Redis without `appendonly yes`; silent where no address is set."""
    if not settings.REDIS_URL:
        return []
    try:
        with sync_client("tracking") as client:
            persistence: Any = client.info("persistence")
    except RedisError as error:
        # No warning: settings can be right while a server is away, and /readyz says so.
        return [
            Info(
                f"REDIS_URL is not reachable: {error}",
                hint="Tracking answers 503 to phones until it is.",
                id="tracking.I001",
            )
        ]
    if persistence.get("aof_enabled") == 1:
        return []
    return [
        Error(
            "Redis keeps no append-only file: a restart would lose accepted fixes.",
            hint="Start it with `appendonly yes` (or CONFIG SET appendonly yes).",
            id="tracking.E001",
        )
    ]
