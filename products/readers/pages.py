"""What every reader gives: pages of raw rows, and at the end whether that was all.

Before it: one file per kind of source. After it: `importer`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from products.http import HttpClient

# A fenced batch holds no more rows than this.
PAGE_ROWS = 1000


class Options(BaseModel):
    """Base of a reader's options: unknown names are refused when a source is saved."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Page:
    """At most 1,000 raw rows. `fetched_at`: just before the request, in UTC."""

    rows: list[Any]
    fetched_at: datetime


class Reader(ABC):
    """Yields pages. Raises SourceFailed at what it cannot read, never half a row."""

    label: ClassVar[str]
    options: ClassVar[type[Options]]
    # Product field → path in the row, where the source says nothing else.
    mapping: ClassVar[dict[str, str]]
    # A paged source that shows no new row is going in circles.
    paged: ClassVar[bool]

    def __init__(self, client: HttpClient, url: str, options: Any, etag: str) -> None:
        self.client = client
        self.url = url
        self.settings: Any = self.options.model_validate(options)
        self.etag = etag
        # Set when everything there is was read, and that is proved.
        self.complete = False
        self.not_modified = False

    @abstractmethod
    def pages(self) -> Iterator[Page]: ...
