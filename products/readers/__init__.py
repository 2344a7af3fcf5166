"""READERS: every kind of source in one table. A new kind is a file and a line here.

Before it: `Source.kind`. After it: `importer`, which asks the reader for pages.
"""

from products.readers.google_merchant import GoogleMerchantReader
from products.readers.pages import Page, Reader
from products.readers.rest_json import RestJsonReader

__all__ = ["READERS", "Page", "Reader"]

READERS: dict[str, type[Reader]] = {
    "rest_json": RestJsonReader,
    "google_merchant": GoogleMerchantReader,
}
