"""The services from wheels: they start, end, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import redis

from project import embedded
from project.embedded.service import die_with_parent

HOLDER = """
import os, signal, sys
from pathlib import Path
from project import embedded
with embedded.running(Path(sys.argv[1])) as services:
    print(*[s.process.pid for s in services], flush=True)
    signal.pause()
"""


@pytest.fixture
def _no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DATABASE_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(variable)


@pytest.mark.usefixtures("_no_addresses")
def test_data_of_postgres_and_valkey_survives_a_restart(tmp_path: Path) -> None:
    with embedded.running(tmp_path / "state"):
        with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
            connection.execute("CREATE TABLE kept (id int)")
        redis.Redis.from_url(os.environ["REDIS_URL"]).set("kept", "1")
    with embedded.running(tmp_path / "state"):
        with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
            connection.execute("SELECT id FROM kept")
        assert redis.Redis.from_url(os.environ["REDIS_URL"]).get("kept") == b"1"


@pytest.mark.usefixtures("_no_addresses")
def test_a_long_folder_name_does_not_break_the_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 25)
    service = embedded.Postgres(folder, durable=False)
    service.start()
    try:
        with psycopg.connect(service.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        service.stop()


@pytest.mark.usefixtures("_no_addresses")
def test_folders_are_private(tmp_path: Path) -> None:
    with embedded.running(tmp_path / "state", durable=False):
        for folder in (tmp_path / "state", *(tmp_path / "state").iterdir()):
            assert folder.stat().st_mode & 0o777 == 0o700, folder


def test_an_address_of_the_environment_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDIS_URL")
    assert [s.variable for s in embedded.missing(tmp_path)] == ["REDIS_URL"]


@pytest.mark.skipif(sys.platform != "linux", reason="death signals are Linux's")
def test_children_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    variables = {"DATABASE_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS"}
    environment = {k: v for k, v in os.environ.items() if k not in variables}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "state")],
        env=environment,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509
    )
    assert holder.stdout is not None
    pids = [int(pid) for pid in holder.stdout.readline().split()]
    assert len(pids) == 3
    holder.kill()
    holder.wait(5)
    holder.stdout.close()
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a service outlived its parent"
        time.sleep(0.05)


def test_a_service_that_cannot_start_says_which_variable_to_set(tmp_path: Path) -> None:
    class Broken(embedded.Broker):
        def command(self) -> list[str]:
            return [sys.executable, "-c", "raise SystemExit('no such disk')"]

    with pytest.raises(embedded.ServiceFailed, match="KAFKA_BOOTSTRAP_SERVERS") as info:
        Broken(tmp_path).start()
    assert "no such disk" in str(info.value)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
