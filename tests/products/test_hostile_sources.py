"""Sources that answer nonsense: a recorded reason each, never a traceback."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from products import http
from products.credentials import SecretMissing, resolve
from products.importer import ImportFailed, import_source
from products.models import ImportRun, Source
from products.tally import Tally
from project.jobs.lease import LeaseLost
from tests.products.factories import lease_of, make_row, make_source, run_import

pytestmark = pytest.mark.django_db

FEED = (
    '<rss xmlns:g="http://base.google.com/ns/1.0"><channel><item><g:id>1</g:id>'
    "<g:title>One</g:title><g:price>1.00 EUR</g:price></item></channel></rss>"
)


def refused(source: Source) -> str:
    """The reason of a run that the source made impossible."""
    with pytest.raises(ImportFailed):
        run_import(source)
    run = ImportRun.objects.latest("pk")
    assert (run.outcome, run.finished_at is not None) == ("failed", True)
    return run.error


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "backoff_s", lambda attempt: 0.0)


JSON: dict[str, Any] = {"content_type": "application/json"}
GZIP: dict[str, Any] = {"headers": {"Content-Encoding": "gzip"}}
CUT = gzip.compress(json.dumps({"products": [make_row(1)]}).encode())[:40]
ANSWERS = {
    "html": Response("<!doctype html><p>Log in", content_type="text/html"),
    "cut json": Response('{"products": [{"id": 1, "ti', **JSON),
    "a number": Response("5", **JSON),
    "an object for the list": Response('{"products": {"a": 1}}', **JSON),
    "empty": Response("", **JSON),
    "bad utf-8": Response(b'{"products": ["\xff\xfe"]}', **JSON),
    "deep": Response(b"[" * 100_000, **JSON),
    "bare NaN": Response('{"products": [{"id": 1, "price": NaN}]}', **JSON),
    "no gzip, though it says so": Response("no gzip", **GZIP),
    "cut gzip": Response(CUT, **GZIP),
    "304 unasked": Response(status=304),
    "204": Response(status=204),
}


@pytest.mark.parametrize("kind", ["rest_json", "google_merchant"])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_nonsense_answer_is_a_reason(
    httpserver: HTTPServer, kind: str, name: str
) -> None:
    httpserver.expect_request("/products").respond_with_response(ANSWERS[name])
    source = make_source(kind=kind, url=httpserver.url_for("/products"))
    # A reason in words: the name of an exception would mean that it went through.
    assert "Error:" not in refused(source)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://localhost:99999/", id="port out of range"),
        pytest.param("http://[::1", id="half an address"),
        pytest.param("http://\u00fc..test/", id="no name"),
        pytest.param("http:///x", id="no host"),
    ],
)
def test_a_nonsense_address_is_a_reason(url: str) -> None:
    assert "Error:" not in refused(make_source(url=url))


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        pytest.param("Bad Header:", "key", id="no name of a header"),
        pytest.param("X-Key", "k\u00e9y", id="no ASCII"),
        pytest.param("X-Key", "two\nlines", id="two lines"),
    ],
)
def test_a_secret_that_cannot_be_sent_is_a_reason_and_stays_secret(
    monkeypatch: pytest.MonkeyPatch, header: str, secret: str
) -> None:
    monkeypatch.setenv("SHOP_KEY", secret)
    reason = refused(make_source(auth_header=header, auth_secret="env:SHOP_KEY"))
    assert "Error:" not in reason
    assert secret not in reason


def test_a_secret_file_is_none_of_the_server_s_own(settings: Any) -> None:
    settings.STATE_DIR.mkdir(exist_ok=True)
    for file in ("/proc/self/environ", "/dev/zero", f"{settings.STATE_DIR}/", "/etc"):
        with pytest.raises((SecretMissing, ValueError)):
            resolve(f"file:{file}")


def test_an_etag_that_cannot_be_sent_back_is_not_asked_with(
    httpserver: HTTPServer,
) -> None:
    httpserver.expect_request("/feed").respond_with_response(
        Response(FEED, headers={"ETag": "\u00e9"})
    )
    source = make_source(kind="google_merchant", url=httpserver.url_for("/feed"))
    outcomes = [run_import(source).outcome for _ in range(2)]
    assert outcomes == ["succeeded", "succeeded"]


def test_an_edit_during_a_run_makes_the_next_one_read_the_whole_feed(
    httpserver: HTTPServer,
) -> None:
    httpserver.expect_request("/feed").respond_with_response(
        Response(FEED, headers={"ETag": '"1"'})
    )
    read = make_source(kind="google_merchant", url=httpserver.url_for("/feed"))
    Source.objects.get().save()
    with lease_of(read) as lease:
        import_source(read, lease)
    assert Source.objects.get().etag == ""


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_row_nested_too_deep_is_refused_like_any_other(depth: int) -> None:
    row: Any = 1
    for _ in range(depth):
        row = [row]
    tally = Tally({"external_id": ["id"], "title": ["title"], "price": ["price"]}, "")
    assert tally.admit([row]) == []
    assert tally.nothing_new([row])
    assert tally.take_issues()[0].raw


@contextmanager
def raw_server(
    *pieces: bytes, every_s: float = 0.0, endless: bytes = b""
) -> Iterator[str]:
    """Sends these bytes to every connection, then goes on with `endless`."""
    done = threading.Event()

    def serve(near: socket.socket) -> None:
        with near, suppress(OSError):
            near.recv(65536)
            for piece in pieces:
                near.sendall(piece)
            while endless and not done.wait(every_s):
                near.sendall(endless)

    def accept() -> None:
        while not done.is_set():
            with suppress(TimeoutError):
                near, _ = server.accept()
                threading.Thread(target=serve, args=(near,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/products"
        done.set()
        thread.join(timeout=2)


@pytest.mark.parametrize(
    "location",
    [
        pytest.param(b"http://[::1", id="half an address"),
        pytest.param(b"http://localhost:99999/", id="bad port"),
        pytest.param(b"http://", id="nothing"),
        pytest.param(b"http://b\xc3\xbccher..test/", id="bad name"),
        pytest.param(b"//", id="slashes"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_a_nonsense_redirect_is_a_reason(location: bytes) -> None:
    head = b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n"
    with raw_server(head + b"Location: " + location + b"\r\n\r\n") as url:
        reason = refused(make_source(url=url))
    assert "Error:" not in reason


def test_a_source_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_S", 0.5)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    with raw_server(head, every_s=0.05, endless=b" ") as url:
        assert "took longer than" in refused(make_source(url=url))


def test_a_run_that_lost_its_lease_leaves_an_answer_that_drips() -> None:
    def lost() -> None:
        if time.monotonic() > ends_at:
            raise LeaseLost("gone")

    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    ends_at = time.monotonic() + 0.3
    with raw_server(head, every_s=0.05, endless=b" ") as url:
        source = make_source(url=url)
        with lease_of(source) as lease:
            lease.check = lost  # type: ignore[method-assign]
            with pytest.raises(LeaseLost):
                import_source(source, lease)
    assert time.monotonic() < ends_at + 2
