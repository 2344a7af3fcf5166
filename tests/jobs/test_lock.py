"""The Redis lock: its token, its ttl, a lost reply, a server that is away."""

import socket
import time
from contextlib import contextmanager

import pytest
import redis

from project.embedded.service import free_port
from project.jobs import lock
from tests.jobs.fault_proxy import FaultProxy, moved_to

KEY = "import-products:source_id=3"


@pytest.fixture
def client():
    with lock.connect() as connected:
        yield connected


@contextmanager
def deaf_server():
    """Accepts connections and never answers, like a server behind a dead network."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def at_port(settings, port: int) -> None:
    moved = moved_to(settings.REDIS_URLS["jobs"], port)
    settings.REDIS_URLS = settings.REDIS_URLS | {"jobs": moved}


@pytest.fixture
def proxy(settings, client):
    with FaultProxy(settings.REDIS_URLS["jobs"]) as running:
        settings.REDIS_URLS = settings.REDIS_URLS | {"jobs": running.url}
        yield running


def test_the_key_holds_the_token_and_nothing_else_and_always_expires(client):
    token = lock.new_token()
    assert lock.acquire(KEY, token, 30)
    assert client.get(f"lock:{KEY}") == token.encode()
    assert 29_000 < client.pttl(f"lock:{KEY}") <= 30_000


def test_a_second_token_does_not_get_it_and_does_not_move_its_ttl(client):
    assert lock.acquire(KEY, "first", 30)
    assert not lock.acquire(KEY, "second", 300)
    assert client.ttl(f"lock:{KEY}") <= 30


def test_our_own_token_counts_as_acquired_and_starts_its_ttl_anew(client):
    assert lock.acquire(KEY, "ours", 5)
    assert lock.acquire(KEY, "ours", 30)
    assert client.ttl(f"lock:{KEY}") > 5


@pytest.mark.parametrize("value", ["a string", ["a", "list"]], ids=["string", "list"])
def test_a_key_set_by_anything_else_counts_as_held(client, value):
    if isinstance(value, list):
        client.rpush(f"lock:{KEY}", *value)
    else:
        client.set(f"lock:{KEY}", value)
    assert not lock.acquire(KEY, "ours", 30)
    assert not lock.release(KEY, "ours")
    assert lock.extend(client, KEY, "ours", 30) is lock.Extension.FOREIGN
    assert client.exists(f"lock:{KEY}")


def test_extending_sets_the_ttl_and_never_adds_to_it(client):
    lock.acquire(KEY, "ours", 60)
    assert lock.extend(client, KEY, "ours", 10) is lock.Extension.EXTENDED
    assert client.ttl(f"lock:{KEY}") <= 10


def test_extending_tells_a_missing_key_from_a_foreign_one(client):
    assert lock.extend(client, KEY, "ours", 10) is lock.Extension.MISSING
    lock.acquire(KEY, "theirs", 10)
    assert lock.extend(client, KEY, "ours", 10) is lock.Extension.FOREIGN


def test_only_the_own_token_is_released(client):
    lock.acquire(KEY, "theirs", 10)
    assert not lock.release(KEY, "ours")
    assert client.exists(f"lock:{KEY}")
    assert lock.release(KEY, "theirs")
    assert not client.exists(f"lock:{KEY}")


def test_a_lock_without_a_ttl_is_refused():
    with pytest.raises(ValueError, match="ttl"):
        lock.acquire(KEY, "ours", 0)


def test_a_lost_reply_is_asked_again_and_the_own_token_wins(proxy, client):
    proxy.replies_to_lose = 1
    assert lock.acquire(KEY, "ours", 30)
    assert proxy.lost == 1
    assert client.get(f"lock:{KEY}") == b"ours"


def test_two_lost_replies_end_in_store_down_and_the_ttl_frees_the_key(proxy, client):
    proxy.replies_to_lose = 2
    with pytest.raises(lock.LockStoreDown):
        lock.acquire(KEY, "ours", 1)
    assert 0 < client.pttl(f"lock:{KEY}") <= 1000


def test_a_closed_port_is_store_down_at_once_and_names_the_variable(settings):
    at_port(settings, port := free_port())
    started = time.monotonic()
    with pytest.raises(lock.LockStoreDown, match=f"REDIS_URL \\(127.0.0.1:{port}\\)"):
        lock.acquire(KEY, "ours", 30)
    assert time.monotonic() - started < 0.5


def test_a_server_that_never_answers_is_store_down_within_the_deadline(settings):
    with deaf_server() as port:
        at_port(settings, port)
        started = time.monotonic()
        with pytest.raises(lock.LockStoreDown):
            lock.acquire(KEY, "ours", 30)
        assert time.monotonic() - started < 1.5


def test_a_release_that_fails_is_only_logged(settings, caplog):
    at_port(settings, free_port())
    assert lock.release(KEY, "ours") is False
    assert [record.action for record in caplog.records] == ["lock_release_failed"]


def test_a_client_of_the_lock_raises_instead_of_retrying(settings):
    at_port(settings, free_port())
    with lock.connect() as client, pytest.raises(redis.ConnectionError):
        lock.extend(client, KEY, "ours", 5)
