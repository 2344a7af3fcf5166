"""The demo shop's HTTP server: pages, feed, ETag, and now and then a 429 or a 503.

Before it: `demo_shop.Catalogue`. After it: `manage.py demo_shop`, and imports.
"""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from products.demo_shop import Catalogue

# Every 40th request is sent away with 429, and the one 20 later with 503.
FAULT_EVERY = 40


@dataclass
class Shop:
    """What the threads of the server share."""

    catalogue: Catalogue
    faults: bool = True
    requests: int = 0
    by_path: Counter[str] = field(default_factory=Counter)
    by_status: Counter[int] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_request(self, path: str) -> int:
        with self._lock:
            self.requests += 1
            self.by_path[path] += 1
            return self.requests

    def count_status(self, status: int) -> None:
        with self._lock:
            self.by_status[status] += 1

    def stats(self) -> dict[str, Any]:
        """Requests to the catalogue since the start; /stats itself does not count."""
        with self._lock:
            return {
                "schema": "drover.demo_shop/1",
                "products": self.catalogue.size,
                "requests": self.requests,
                "by_path": dict(self.by_path),
                "by_status": {str(k): v for k, v in self.by_status.items()},
            }


class Handler(BaseHTTPRequestHandler):
    """GET /products, /feed.xml and /stats."""

    shop: ClassVar[Shop]
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/stats":
            self._send(200, json.dumps(self.shop.stats()), count=False)
            return
        number = self.shop.count_request(url.path)
        if self.shop.faults and number % FAULT_EVERY == 0:
            self._problem(429, "Too many requests", {"Retry-After": "1"})
        elif self.shop.faults and number % FAULT_EVERY == FAULT_EVERY // 2:
            self._problem(503, "Down for a moment")
        elif route := ROUTES.get(url.path):
            route(self, parse_qs(url.query))
        else:
            self._problem(404, "Not found")

    def products(self, query: dict[str, list[str]]) -> None:
        try:
            skip, limit = (
                max(0, int(query.get(name, [default])[0]))
                for name, default in (("skip", "0"), ("limit", "30"))
            )
        except ValueError:
            self._problem(400, "limit and skip must be whole numbers")
            return
        catalogue = self.shop.catalogue
        rows = catalogue.page(skip, limit, datetime.now(UTC))
        page = {"products": rows, "total": catalogue.size, "skip": skip}
        self._send(200, json.dumps({**page, "limit": len(rows)}))

    def feed(self, _query: dict[str, list[str]]) -> None:
        catalogue = self.shop.catalogue
        items = catalogue.page(0, 0, datetime.now(UTC))
        self._send(200, merchant_feed(items), "application/xml")

    def _problem(
        self, status: int, message: str, headers: dict[str, str] | None = None
    ) -> None:
        self._send(status, json.dumps({"message": message}), headers=headers)

    def _send(
        self,
        status: int,
        text: str,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        *,
        count: bool = True,
    ) -> None:
        body = text.encode()
        headers = dict(headers or {})
        if status == 200:
            headers["ETag"] = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
            if self.headers.get("If-None-Match") == headers["ETag"]:
                status, body = 304, b""
        if count:
            self.shop.count_status(status)
        self.send_response(HTTPStatus(status))
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet: /stats says what was asked."""


ROUTES: dict[str, Callable[[Handler, dict[str, list[str]]], None]] = {
    "/products": Handler.products,
    "/feed.xml": Handler.feed,
}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    # A restarted demo finds its port again at once.
    allow_reuse_address = True


def serve(shop: Shop, host: str, port: int) -> Server:
    """A bound server; call `serve_forever`. Raises OSError if the port is taken."""
    handler = type("ShopHandler", (Handler,), {"shop": shop})
    return Server((host, port), handler)


def merchant_feed(products: list[dict[str, Any]]) -> str:
    """The catalogue as RSS 2.0 with Google's namespace."""
    items = "\n".join(_item(product) for product in products)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0">\n<channel>\n'
        "<title>Demo shop</title>\n<link>https://shop.example</link>\n"
        f"<description>All of it</description>\n{items}\n</channel>\n</rss>\n"
    )


def _item(product: dict[str, Any]) -> str:
    out = product["stock"] == 0
    fields = {
        "id": product["sku"],
        "title": product["title"],
        "description": product["description"],
        "link": f"https://shop.example/p/{product['id']}",
        "image_link": product["thumbnail"],
        "availability": "out_of_stock" if out else "in_stock",
        "price": f"{product['price']:.2f} EUR",
        "brand": product["brand"],
        "gtin": product["meta"]["barcode"],
        "product_type": product["category"],
    }
    lines = "".join(f"<g:{k}>{escape(v)}</g:{k}>" for k, v in fields.items())
    return f"<item>{lines}<g:shipping><g:price>4.99 EUR</g:price></g:shipping></item>"
