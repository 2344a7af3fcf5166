"""Journeys of the consumer process with a real broker: stop, outage, memory lost."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from psycopg import sql

from project.embedded import Broker
from streaming.models import Cursor, InboxMessage, Subscription, TopicIncarnation
from tests.processes import Processes
from tests.streaming.produce import produce

pytestmark = [pytest.mark.journey, pytest.mark.django_db(transaction=True)]


def fixes(count: int) -> list[tuple[bytes, bytes]]:
    fields = {"schema": "fix/1", "lat": 1, "lon": 2, "fixed_at": "2026-12-01T00:00:00Z"}
    return [
        (str(n % 7).encode(), orjson.dumps(fields | {"device": str(n % 7)}))
        for n in range(count)
    ]


def received() -> int:
    return InboxMessage.objects.count()


def killed(broker: Broker) -> None:
    """Told to stop it takes five seconds."""
    if broker.process is not None:
        broker.process.kill()
    broker.stop()


def test_a_consumer_outlives_its_database_and_leaves_at_once_when_told_to(
    processes: Processes,
) -> None:
    produce("life", fixes(500))
    with database_away():
        processes.manage("consume")
        processes.wait_for(
            lambda: "DATABASE_URL" in processes.log("consume"), what="one clear line"
        )
    Subscription.objects.ensure("life", "drover")
    processes.wait_for(lambda: received() == 500, timeout=40, what="500 rows")
    with database_away():
        produce("life", fixes(400))
        processes.wait_for(
            lambda: processes.log("consume").count("database_unavailable") == 2,
            what="the line again, once per outage",
        )
    processes.wait_for(lambda: received() == 900, timeout=40, what="900 rows")
    assert processes.log("consume").count("database_unavailable") == 2
    started = time.monotonic()
    assert processes.stop("consume") == 0
    assert time.monotonic() - started < 10
    produce("life", fixes(300))
    call_command("consume", "--once", verbosity=0)
    assert received() == 1200
    assert sum(Cursor.objects.values_list("next_offset", flat=True)) == 1200


def test_a_second_signal_ends_it_at_once(processes: Processes) -> None:
    # Nobody listens there, so the consumer cannot leave its group in peace.
    process = processes.manage("consume", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1")
    processes.wait_for(
        lambda: "KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:1" in processes.log("consume"),
        what="the line that names the variable and the address",
    )
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) in (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_a_broker_that_forgot_everything_is_read_as_a_new_topic(
    processes: Processes, tmp_path: Path
) -> None:
    Subscription.objects.ensure("forgotten", "drover")
    broker = Broker(tmp_path / "broker")
    broker.start()
    try:
        produce("forgotten", fixes(200), broker=broker.url)
        processes.manage("consume", KAFKA_BOOTSTRAP_SERVERS=broker.url)
        processes.wait_for(lambda: received() == 200, timeout=40, what="200 rows")
        killed(broker)
        broker.start()
        produce("forgotten", fixes(50), broker=broker.url)
        processes.wait_for(lambda: received() == 250, timeout=60, what="the new 50")
        assert TopicIncarnation.objects.count() == 2
        assert processes.stop("consume") == 0
    finally:
        killed(broker)


@contextmanager
def database_away() -> Iterator[None]:
    """Nobody but this test reaches the test database meanwhile."""
    name = str(connection.settings_dict["NAME"])
    allow = sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = %s AND pid <> %s"
    )
    connection.ensure_connection()
    mine = connection.connection.info.backend_pid
    parameters = connection.get_connection_params() | {"dbname": "postgres"}
    parameters = {
        k: parameters[k]
        for k in ("dbname", "user", "host", "port", "password")
        if k in parameters
    }
    with psycopg.connect(**parameters, autocommit=True) as other:
        other.execute(allow.format(sql.Identifier(name), sql.Literal(False)))
        other.execute(others, [name, mine])
        try:
            yield
        finally:
            other.execute(allow.format(sql.Identifier(name), sql.Literal(True)))
