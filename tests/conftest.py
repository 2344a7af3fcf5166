"""Fixtures that every part of the suite shares."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from project.embedded.service import free_port
from project.redis import sync_client
from tests.processes import Processes


@pytest.fixture
def processes(tmp_path: Path, transactional_db: None) -> Iterator[Processes]:
    """Real processes on the test database, all ended after the test."""
    children = Processes(tmp_path)
    yield children
    children.stop_all()


@pytest.fixture
def unused_port() -> int:
    return free_port()


@pytest.fixture(autouse=True)
def _empty_redis() -> Iterator[None]:
    """Each test starts with empty Redis databases (of the suite's own server)."""
    yield
    with sync_client("jobs") as client:
        client.flushall()
