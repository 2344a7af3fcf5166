"""The HTTP client: patience with servers, none with nonsense; secrets stay home."""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from products.http import (
    HttpClient,
    SourceDeferred,
    SourceFailed,
    masked,
    retry_after_s,
)


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(httpserver: HTTPServer, waits: list[float]):
    with HttpClient(httpserver.url_for("/"), pause=waits.append) as client:
        yield client


def read(client: HttpClient, url: str) -> bytes:
    with client.fetch(url) as fetched:
        assert fetched is not None
        return fetched.body.read()


def test_429_and_503_are_waited_for_as_the_server_asks(
    httpserver: HTTPServer, client: HttpClient, waits: list[float]
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    for status, headers in (
        (429, {"Retry-After": "2.0"}),
        (429, {"Retry-After": date}),
        (503, {}),
    ):
        httpserver.expect_ordered_request("/").respond_with_data(
            "no", status=status, headers=headers
        )
    httpserver.expect_ordered_request("/").respond_with_data("yes")
    assert read(client, httpserver.url_for("/")) == b"yes"
    assert waits[0] == 2.0
    assert 35 < waits[1] <= 40
    assert 0 <= waits[2] <= 4
    assert (client.traffic.requests, client.traffic.retries) == (4, 3)


def test_a_server_that_asks_for_a_day_ends_the_run_at_once(
    httpserver: HTTPServer, client: HttpClient, waits: list[float]
) -> None:
    httpserver.expect_request("/").respond_with_data(
        "", status=429, headers={"Retry-After": "86400"}
    )
    with pytest.raises(SourceDeferred, match="86400 s"):
        read(client, httpserver.url_for("/"))
    assert waits == []


def test_a_server_that_stays_broken_is_given_up(
    httpserver: HTTPServer, client: HttpClient, waits: list[float]
) -> None:
    httpserver.expect_request("/").respond_with_data("", status=500)
    with pytest.raises(SourceFailed, match="answered 500, 5 times"):
        read(client, httpserver.url_for("/"))
    assert len(waits) == 4


def test_nobody_listening_is_one_clear_line(
    client: HttpClient, unused_port: int
) -> None:
    with pytest.raises(SourceFailed, match=r"does not answer \(ConnectError\)"):
        read(client, f"http://127.0.0.1:{unused_port}/")


def test_401_names_the_secret_and_is_not_repeated(
    httpserver: HTTPServer, client: HttpClient, waits: list[float]
) -> None:
    httpserver.expect_request("/").respond_with_data("", status=401)
    with pytest.raises(SourceFailed, match="Check the source's secret"):
        read(client, httpserver.url_for("/"))
    assert waits == []


def test_a_body_cut_short_of_its_length_is_read_again(
    httpserver: HTTPServer, client: HttpClient
) -> None:
    def cut(_request: Request) -> Response:
        return Response(iter([b"half"]), headers={"Content-Length": "400"})

    httpserver.expect_ordered_request("/").respond_with_handler(cut)
    httpserver.expect_ordered_request("/").respond_with_data("whole")
    assert read(client, httpserver.url_for("/")) == b"whole"


def test_an_answer_above_the_cap_is_refused(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data("x" * 2000)
    url = httpserver.url_for("/")
    with (
        HttpClient(url, max_bytes=1000) as client,
        pytest.raises(SourceFailed, match="larger than 1000 bytes"),
    ):
        read(client, url)


def test_the_secret_reaches_the_source_but_no_other_host_and_no_log(
    httpserver: HTTPServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str | None] = []

    def answer(request: Request) -> Response:
        seen.append(request.headers.get("X-Token"))
        if len(seen) == 1:
            return Response("", 503)
        # The same server under another name is another host.
        other = f"http://localhost:{httpserver.port}/elsewhere"
        return Response("", 302, headers={"Location": other})

    def elsewhere(request: Request) -> Response:
        seen.append(request.headers.get("X-Token"))
        return Response("done")

    httpserver.expect_request("/p").respond_with_handler(answer)
    httpserver.expect_request("/elsewhere").respond_with_handler(elsewhere)
    url = f"http://127.0.0.1:{httpserver.port}/p"
    with HttpClient(url, "X-Token", "s3cret", pause=lambda _: None) as client:
        assert read(client, f"{url}?key=s3cret") == b"done"
    assert seen == ["s3cret", "s3cret", None]
    assert "s3cret" not in "".join(
        record.getMessage() + str(vars(record))
        for record in caplog.records
        if record.name.startswith("products")
    )


def test_redirects_leave_http_never_and_end(httpserver: HTTPServer) -> None:
    url = httpserver.url_for("/")
    httpserver.expect_request("/").respond_with_response(
        Response("", 302, headers={"Location": "file:///etc/passwd"})
    )
    httpserver.expect_request("/loop").respond_with_response(
        Response("", 302, headers={"Location": "/loop"})
    )
    with HttpClient(url) as client:
        with pytest.raises(SourceFailed, match="refused: not http"):
            read(client, url)
        with pytest.raises(SourceFailed, match="more than 5 redirects"):
            read(client, httpserver.url_for("/loop"))


def test_an_etag_that_still_holds_means_not_modified(
    httpserver: HTTPServer, client: HttpClient
) -> None:
    httpserver.expect_request("/", headers={"If-None-Match": '"a"'}).respond_with_data(
        "", status=304
    )
    with client.fetch(httpserver.url_for("/"), etag='"a"') as fetched:
        assert fetched is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("2", 2.0, id="integer"),
        pytest.param("0.129", 0.129, id="float"),
        pytest.param("-5", 0.0, id="negative"),
        pytest.param("1m0s", None, id="duration"),
        pytest.param("nan", None, id="nan"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="absent"),
        pytest.param("Thu, 01 Jan 1970 00:00:00 GMT", 0.0, id="past-date"),
    ],
)
def test_retry_after(header: str | None, expected: float | None) -> None:
    assert retry_after_s(header) == expected


def test_an_address_is_shown_without_its_secrets() -> None:
    assert masked("https://u:p@shop.test:8443/a?key=1#f") == "https://shop.test:8443/a"
