"""Google Merchant feed: RSS 2.0 with the g: namespace, one item per product.

Before it: `http`, which spools the feed. After it: `importer`. Memory stays flat.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

from lxml import etree

from products.http import SourceFailed
from products.readers.pages import PAGE_ROWS, Options, Page, Reader

# Matched by address: a feed may call the prefix what it likes.
GOOGLE = "{http://base.google.com/ns/1.0}"


class GoogleMerchantOptions(Options):
    """Nothing to set: the format says it all."""


class GoogleMerchantReader(Reader):
    label = "Google Merchant XML"
    options = GoogleMerchantOptions
    paged = False
    mapping = {
        "external_id": "id",
        "title": "title",
        "price": "price",
        "sale_price": "sale_price",
        "availability": "availability",
        "gtin": "gtin",
        "brand": "brand",
        "category": "product_type",
        "url": "link",
        "image_url": "image_link",
        "description": "description",
    }

    def pages(self) -> Iterator[Page]:
        fetched_at = datetime.now(UTC)
        with self.client.fetch(self.url, etag=self.etag) as fetched:
            if fetched is None:
                self.not_modified = True
                return
            rows: list[dict[str, str]] = []
            for row in items(fetched.body):
                rows.append(row)
                if len(rows) == PAGE_ROWS:
                    yield Page(rows, fetched_at)
                    rows = []
            if rows:
                yield Page(rows, fetched_at)
            # The parser met the closing tag of the document: nothing was cut off.
            self.complete = True
            self.etag = fetched.etag


def items(body: IO[bytes]) -> Iterator[dict[str, str]]:
    """One flat dict per item; raises SourceFailed where the document goes wrong."""
    context = etree.iterparse(
        body,
        events=("start", "end"),
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        load_dtd=False,
    )
    try:
        root_seen = False
        for event, element in context:
            if not root_seen:
                _check_root(element)
                root_seen = True
            if event == "end" and element.tag == "item":
                yield _row(element)
                _forget(element)
    except etree.XMLSyntaxError as error:
        raise SourceFailed(f"The feed is cut or no XML: {error.msg}.") from error


def _check_root(root: Any) -> None:
    if root.getroottree().docinfo.doctype:
        raise SourceFailed("The feed has a DOCTYPE: refused, entities can be a bomb.")
    if root.tag != "rss":
        raise SourceFailed(f"The root element is <{root.tag}>, not <rss>.")


def _row(item: Any) -> dict[str, str]:
    """Direct children only: g:shipping has a g:price of its own."""
    plain: dict[str, str] = {}
    google: dict[str, str] = {}
    for child in item.iterchildren(tag=etree.Element):
        name = child.tag.removeprefix(GOOGLE)
        if not name.startswith("{"):
            target = google if child.tag.startswith(GOOGLE) else plain
            target.setdefault(name, (child.text or "").strip())
    return {**plain, **google}


def _forget(item: Any) -> None:
    item.clear()
    # clear() leaves the empty elements hanging on the channel: 20 times the memory.
    while item.getprevious() is not None:
        del item.getparent()[0]
