"""A database that is away, for this process only."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def database_away() -> Iterator[None]:
    """Every new session goes to an address where nobody listens."""
    connection.close()
    options = connection.settings_dict["OPTIONS"]
    connection.settings_dict["OPTIONS"] = options | {"host": "127.0.0.1", "port": 1}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["OPTIONS"] = options
