"""REST API that answers JSON pages by skip and limit; DummyJSON is the preset.

Before it: `http`. After it: `importer`, which also finds pages that repeat.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn

from pydantic import Field

from products.http import Fetched, SourceFailed
from products.readers.pages import PAGE_ROWS, Options, Page, Reader

# A page is parsed in memory, and takes some ten times its size there.
MAX_PAGE_BYTES = 32 * 1024 * 1024


class RestJsonOptions(Options):
    """Names as the API wants them. An empty `items`: the answer itself is the list."""

    items: str = "products"
    total: str = "total"
    limit: int = Field(default=100, ge=1, le=PAGE_ROWS)
    limit_name: str = "limit"
    skip_name: str = "skip"
    # A fixed order: without one, rows with equal keys repeat and get lost.
    params: dict[str, str | int] = {"sortBy": "id", "order": "asc"}
    max_pages: int = Field(default=10_000, ge=1)


class RestJsonReader(Reader):
    label = "JSON pages (skip/limit)"
    options = RestJsonOptions
    paged = True
    mapping = {
        "external_id": "id",
        "title": "title",
        "price": "price",
        "stock": "stock",
        "availability": "availabilityStatus",
        "sku": "sku",
        "gtin": "meta.barcode",
        "brand": "brand",
        "category": "category",
        "image_url": "thumbnail",
        "description": "description",
        "modified_at": "meta.updatedAt",
    }

    def pages(self) -> Iterator[Page]:
        """Stops at an empty page or at the total; complete if both counts agree."""
        settings: RestJsonOptions = self.settings
        skip, totals = 0, set()
        for _ in range(settings.max_pages):
            fetched_at = datetime.now(UTC)
            rows, total = self._page(skip)
            totals.add(total)
            skip += len(rows)
            if rows:
                # More rows than asked for happen: 0 means "all" to some servers.
                for start in range(0, len(rows), PAGE_ROWS):
                    yield Page(rows[start : start + PAGE_ROWS], fetched_at)
            if not rows or (total is not None and skip >= total):
                # A total that moved while reading, or that was not reached, means
                # rows may have been shifted between two pages.
                self.complete = totals in ({None}, {skip})
                return
        raise SourceFailed(f"More than {settings.max_pages} pages.")

    def _page(self, skip: int) -> tuple[list[Any], int | None]:
        settings: RestJsonOptions = self.settings
        paging = {settings.limit_name: settings.limit, settings.skip_name: skip}
        with self.client.fetch(self.url, {**settings.params, **paging}) as fetched:
            if fetched is None:
                raise SourceFailed("Answered 304 to a request without a condition.")
            document = decode(fetched)
        rows = _dig(document, settings.items)
        if not isinstance(rows, list):
            where = f"at {settings.items!r}" if settings.items else "on top"
            raise SourceFailed(f"The answer holds no list {where}.")
        total = _dig(document, settings.total) if settings.total else None
        return rows, total if type(total) is int else None


def decode(fetched: Fetched) -> Any:
    """The JSON document, numbers exact; raises SourceFailed with what came instead."""
    raw = fetched.body.read(MAX_PAGE_BYTES + 1)
    if len(raw) > MAX_PAGE_BYTES:
        raise SourceFailed(f"A page is larger than {MAX_PAGE_BYTES} bytes.")
    if raw.lstrip()[:1] == b"<":
        raise SourceFailed(
            "Answered HTML or XML instead of JSON: a login or maintenance page?"
        )
    try:
        return json.loads(
            raw, parse_float=Decimal, parse_int=_whole, parse_constant=_refuse
        )
    except (ValueError, RecursionError) as error:
        raise SourceFailed(f"The answer is not valid JSON: {error}.") from error


def _whole(digits: str) -> int | Decimal:
    # Thousands of digits are legal JSON, and int() refuses them: one bad row only.
    return int(digits) if len(digits) <= 40 else Decimal(digits)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _dig(document: Any, path: str) -> Any:
    for key in path.split(".") if path else []:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document
