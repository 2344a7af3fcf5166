"""PostgreSQL, Valkey and a Kafka-protocol broker without installing any of them.

Before it: `manage.py demo` and the test suite. Addresses that the environment gives
always win, each separately.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from project.embedded.broker import Broker
from project.embedded.postgres import Postgres
from project.embedded.service import Service, ServiceFailed, make_private
from project.embedded.valkey import Valkey

__all__ = [
    "Broker",
    "Postgres",
    "Service",
    "ServiceFailed",
    "Valkey",
    "make_private",
    "missing",
    "running",
]


def missing(folder: Path, *, durable: bool = True) -> list[Service]:
    """The services whose address the environment does not give, not yet started."""
    services: list[Service] = [
        Postgres(folder / "postgres", durable=durable),
        Valkey(folder / "valkey"),
        Broker(folder / "broker"),
    ]
    return [service for service in services if not os.environ.get(service.variable)]


@contextmanager
def running(folder: Path, *, durable: bool = True) -> Iterator[list[Service]]:
    """Start what is missing, set the environment variables, stop all at the end.

    Raises ServiceFailed; what had started by then is stopped again.
    """
    make_private(folder)
    with ExitStack() as stack:
        started = []
        for service in missing(folder, durable=durable):
            stack.callback(service.stop)
            service.start()
            os.environ[service.variable] = service.url
            stack.callback(os.environ.pop, service.variable, None)
            started.append(service)
        yield started
