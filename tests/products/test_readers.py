"""Readers: what is whole is proved, what repeats is found, what is hostile is refused."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from products.http import HttpClient, SourceFailed
from products.readers import READERS, Reader
from products.readers.google_merchant import items
from tests.products.factories import make_row, serve_rows

RSS = '<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0"><channel>{}</channel></rss>'


@contextmanager
def reader_of(kind: str, url: str, **options: Any) -> Iterator[Reader]:
    with HttpClient(url, pause=lambda _: None) as client:
        yield READERS[kind](client, url, options, "")


def read_json(url: str, **options: Any) -> tuple[list[Any], bool]:
    with reader_of("rest_json", url, **options) as reader:
        return [row for page in reader.pages() for row in page.rows], reader.complete


def read_xml(text: str) -> list[dict[str, str]]:
    return list(items(BytesIO(text.encode())))


def test_pages_are_read_up_to_the_total(httpserver: HTTPServer) -> None:
    requests = serve_rows(httpserver, [make_row(n) for n in range(1, 26)])
    rows, complete = read_json(httpserver.url_for("/products"), limit=10)
    assert [row["id"] for row in rows] == list(range(1, 26))
    assert complete
    assert [r.args["skip"] for r in requests] == ["0", "10", "20"]
    assert requests[0].args["sortBy"] == "id"


def test_numbers_stay_exact(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/p").respond_with_data(
        '{"products":[{"id":12345678901234567890,"price":0.1}],"total":1}'
    )
    rows, _ = read_json(httpserver.url_for("/p"))
    assert rows == [{"id": 12345678901234567890, "price": Decimal("0.1")}]


def test_an_api_without_a_total_is_read_until_a_page_is_empty(
    httpserver: HTTPServer,
) -> None:
    def answer(request: Request) -> Response:
        skip = int(request.args["offset"])
        return Response(json.dumps([make_row(skip)] if skip < 3 else []))

    httpserver.expect_request("/p").respond_with_handler(answer)
    rows, complete = read_json(
        httpserver.url_for("/p"), items="", total="", skip_name="offset", limit=1
    )
    assert (len(rows), complete) == (3, True)


def test_a_total_that_moves_while_reading_is_not_a_whole_snapshot(
    httpserver: HTTPServer,
) -> None:
    for total, rows in ((3, [make_row(1), make_row(2)]), (4, [make_row(3)]), (4, [])):
        httpserver.expect_ordered_request("/p").respond_with_json(
            {"products": rows, "total": total}
        )
    rows, complete = read_json(httpserver.url_for("/p"), limit=2)
    assert (len(rows), complete) == (3, False)


def test_a_server_that_sends_everything_at_once_is_cut_into_pages(
    httpserver: HTTPServer,
) -> None:
    rows = [make_row(n) for n in range(2500)]
    httpserver.expect_request("/p").respond_with_json({"products": rows, "total": 2500})
    with reader_of("rest_json", httpserver.url_for("/p")) as reader:
        assert [len(page.rows) for page in reader.pages()] == [1000, 1000, 500]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("<html>Log in</html>", "login or maintenance page", id="html"),
        pytest.param('{"products":[{"id":1}', "not valid JSON", id="cut"),
        pytest.param('{"products":[{"price":NaN}]}', "NaN is no JSON", id="nan"),
        pytest.param("[" * 100_000, "not valid JSON", id="deep"),
        pytest.param('{"items":[]}', "no list at 'products'", id="other-shape"),
        pytest.param('{"products":{}}', "no list at 'products'", id="object"),
        pytest.param("", "not valid JSON", id="empty"),
    ],
)
def test_json_that_is_not_pages(httpserver: HTTPServer, body: str, reason: str) -> None:
    httpserver.expect_request("/p").respond_with_data(body)
    with pytest.raises(SourceFailed, match=reason):
        read_json(httpserver.url_for("/p"))


def test_a_number_of_ten_thousand_digits_costs_one_row_not_the_page(
    httpserver: HTTPServer,
) -> None:
    body = '{"products":[{"id":1,"stock":' + "9" * 10_000 + '},{"id":2}],"total":2}'
    httpserver.expect_request("/p").respond_with_data(body)
    assert len(read_json(httpserver.url_for("/p"))[0]) == 2


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("rest_json", {"limit": 0}),
        ("rest_json", {"x": 1}),
        ("google_merchant", {"x": 1}),
    ],
)
def test_unknown_options_are_refused(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        READERS[kind].options.model_validate(options)


def test_google_names_win_and_nested_groups_stay_out() -> None:
    rows = read_xml(
        '<rss xmlns:x="http://base.google.com/ns/1.0"><channel><title>Feed</title>'
        "<item><title>Plain</title><x:id>1</x:id><x:title>Google's</x:title>"
        "<link>http://a.test/1</link><x:price>9.99 EUR</x:price>"
        "<x:shipping><x:price>4.99 EUR</x:price></x:shipping>"
        "<!-- note --><other:price xmlns:other='urn:o'>1</other:price></item>"
        "</channel></rss>"
    )
    assert rows == [
        {
            "title": "Google's",
            "id": "1",
            "link": "http://a.test/1",
            "price": "9.99 EUR",
            "shipping": "",
        }
    ]


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in ("ab", "bc", "cd", "de"))
    + "]>"
    + RSS.format("<item><title>&e;</title></item>")
)
EXTERNAL = '<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + RSS.format(
    "<item><title>&x;</title></item>"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(BOMB, "DOCTYPE", id="entity-bomb"),
        pytest.param(EXTERNAL, "DOCTYPE", id="external-entity"),
        pytest.param("<!DOCTYPE html><html></html>", "DOCTYPE", id="html5"),
        pytest.param("<html><item/></html>", "<html>, not <rss>", id="html"),
        pytest.param(RSS.format("<item>")[:-20], "cut or no XML", id="cut"),
        pytest.param(RSS.format("<item>&nbsp;</item>"), "cut or no XML", id="entity"),
        pytest.param('{"products":[]}', "cut or no XML", id="json"),
        pytest.param("", "cut or no XML", id="empty"),
    ],
)
def test_xml_that_is_no_feed(text: str, reason: str) -> None:
    with pytest.raises(SourceFailed, match=reason):
        read_xml(text)


def test_what_came_before_the_cut_was_read() -> None:
    item = "<item><title>x</title></item>"
    rows: list[dict[str, str]] = []
    with pytest.raises(SourceFailed):
        rows.extend(items(BytesIO(RSS.format(item * 5000).encode()[:-50])))
    reader = items(BytesIO(RSS.format(item * 5000).encode()[:-50]))
    assert next(reader) == {"title": "x"}


PEAK = """
import resource
from io import BytesIO
from products.readers.google_merchant import items
item = b"<item><g:id>1</g:id><g:title>" + b"t" * 200 + b"</g:title></item>"
class Feed(BytesIO):
    left = {count}
    def read(self, size=-1):
        if not self.left:
            return b""
        n = min(100, self.left)
        self.left -= n
        head = self.start if self.left + n == {count} else b""
        return head + item * n + (b"</channel></rss>" if not self.left else b"")
Feed.start = b'<rss xmlns:g="http://base.google.com/ns/1.0"><channel>'
assert sum(1 for _ in items(Feed())) == {count}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_stays_flat_however_long_the_feed_is() -> None:
    small, large = (
        int(subprocess.check_output([sys.executable, "-c", PEAK.format(count=n)]))
        for n in (1_000, 60_000)
    )
    # 60,000 items are 16 MB of text, and some 60 MB as a tree.
    assert large - small < 5_000
