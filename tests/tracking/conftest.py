"""Fixtures of the tracking tests."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings as django_settings
from django.db import connections
from django.test import override_settings

from project.redis import async_client as redis_client
from tracking import auth, ingest, live
from tracking.hub import Hub, hub


@pytest.fixture(autouse=True)
def _fresh_process(settings: Any) -> Iterator[None]:
    """Nothing that a process remembers outlives a test."""
    settings.TRACKING_TICK_MS = 50
    ingest._REMEMBERED.clear()
    auth.forget_tokens()
    yield
    live.sync_redis().connection_pool.disconnect()
    live.sync_redis.cache_clear()


@pytest.fixture
def redis_away(monkeypatch):
    """A context in which the async client of tracking reaches nothing."""

    @asynccontextmanager
    async def away():
        urls = django_settings.REDIS_URLS | {"tracking": "redis://127.0.0.1:1"}
        with override_settings(REDIS_URLS=urls):
            client = redis_client("tracking")
        with monkeypatch.context() as patch:
            patch.setattr(live, "async_redis", lambda: client)
            yield
        await client.aclose()

    return away


@pytest.fixture
async def running_hub(transactional_db: None) -> AsyncIterator[Hub]:
    """The hub of this event loop, ended with its connections after the test."""
    current = hub()
    yield current
    await current.close()
    layer = get_channel_layer()
    assert layer is not None
    await layer.flush()
    # The thread that served the sockets must not hold the test database open.
    await sync_to_async(connections.close_all)()
    await live.async_redis().aclose()
    await live.async_redis().connection_pool.aclose()
