"""Fixtures of the tracking tests."""

from collections.abc import AsyncIterator, Iterator

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import connections

from tracking import auth, ingest, live
from tracking.hub import Hub, hub


@pytest.fixture(autouse=True)
def _fresh_process(settings) -> Iterator[None]:
    """Nothing that a process remembers outlives a test."""
    settings.TRACKING_TICK_MS = 50
    ingest._REMEMBERED.clear()
    auth.forget_tokens()
    yield
    live.sync_redis().connection_pool.disconnect()


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
