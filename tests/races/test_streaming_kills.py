"""Workers killed and stopped at random moments: each effect once, in order of its key."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db import connection

from streaming.models import DeadLetter, HandledMessage
from tests.processes import ROOT, Processes
from tests.streaming.builders import (
    arrive,
    handles,
    lanes_of_ready,
    make_place,
    make_record,
    note,
)

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]
MESSAGES, KEYS = 400, 20
KILLING_S = 2.0


@pytest.fixture
def _effects() -> Iterator[None]:
    with connection.cursor() as sql:
        sql.execute(
            "CREATE TABLE effect (id bigserial PRIMARY KEY, key bytea, number int)"
        )
    yield
    with connection.cursor() as sql:
        sql.execute("DROP TABLE effect")


def rows(statement: str) -> list[tuple[int, ...]]:
    with connection.cursor() as sql:
        sql.execute(statement)
        return list(sql.fetchall())


@pytest.mark.usefixtures("_effects")
def test_kills_at_random_moments_lose_nothing_and_double_nothing(processes: Processes):
    records = [
        make_record(n, note("x"), key=b"%d" % (n % KEYS)) for n in range(MESSAGES)
    ]
    arrive(make_place(), records, handles())
    command = [sys.executable, "-m", "tests.streaming.killed_workers"]
    command += [json.dumps(lanes_of_ready()), str(KILLING_S)]
    subprocess.run(
        command, cwd=ROOT, env=processes.environment(), timeout=60, check=True
    )
    assert HandledMessage.objects.count() == MESSAGES
    assert not DeadLetter.objects.exists()
    assert rows("SELECT count(*), count(DISTINCT number) FROM effect") == [
        (MESSAGES, MESSAGES)
    ]
    # Per key the numbers grow with the order in which the effects were had.
    disorder = """SELECT count(*) FROM (SELECT number, lag(number)
        OVER (PARTITION BY key ORDER BY id) AS before FROM effect) x
        WHERE before >= number"""
    assert rows(disorder) == [(0,)]
