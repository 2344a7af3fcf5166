"""The demo as a newcomer starts it: everything comes up, works, and leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from project.embedded.service import die_with_parent

pytestmark = [pytest.mark.journey, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {"DATABASE_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS"}
# 15 s on an idle machine; a busy one gets more before the test calls it broken.
READY_WITHIN_S = 90
STOPPED_WITHIN_S = 10


class DemoProcess:
    def __init__(
        self,
        state: Path,
        *arguments: str,
        ready_file: str = "up.json",
        **environment: str,
    ) -> None:
        self.ready_file = state / ready_file
        self.ready_file.unlink(missing_ok=True)
        inherited = {k: v for k, v in os.environ.items() if k not in SERVICES}
        inherited.pop("DROVER_IGNORE_DEMO")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "manage.py", "demo", "--vehicles=6"),
                *(f"--ready-file={self.ready_file}", *arguments),
            ],
            cwd=ROOT,
            env=inherited | {"DROVER_STATE_DIR": str(state / "state")} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509
        )

    def wait_until_ready(self) -> dict[str, Any]:
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < deadline, "not ready"
            time.sleep(0.1)
        document: dict[str, Any] = json.loads(self.ready_file.read_text())
        return document

    def output(self) -> str:
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if str(tmp_path) in " ".join(process.cmdline()):
                process.kill()


def test_it_works_on_all_three_paths_and_stops_by_itself(state: Path) -> None:
    demo = DemoProcess(state, "--seconds=20")
    document = demo.wait_until_ready()
    assert demo.ready_file.stat().st_mode & 0o777 == 0o600
    roles = [process["role"] for process in document["processes"]]
    assert (roles.count("beat"), roles.count("worker")) == (3, 2)
    assert roles.count("service") == 3
    for name in ("map", "admin", "phone", "metrics"):
        answer = httpx2.get(document[name], follow_redirects=True, timeout=10)
        assert answer.status_code == 200, name
    family = [process["pid"] for process in document["processes"]]
    report = demo.output()
    assert demo.process.returncode == 0, report
    assert "What happened" in report
    assert not [pid for pid in family if psutil.pid_exists(pid)]


def test_a_killed_demo_leaves_nothing_and_ctrl_c_stops_the_next_in_ten_seconds(
    state: Path,
) -> None:
    killed = DemoProcess(state)
    killed.wait_until_ready()
    family = psutil.Process(killed.process.pid).children(recursive=True)
    killed.process.kill()
    killed.output()
    psutil.wait_procs(family, timeout=15)
    assert not [process for process in family if process.is_running()]

    demo = DemoProcess(state)
    document = demo.wait_until_ready()
    family = psutil.Process(demo.process.pid).children(recursive=True)
    assert len(family) > len(document["processes"])  # pool children too
    second = DemoProcess(state, ready_file="second.json")
    assert "already runs here" in second.output()
    assert second.process.returncode == 1

    began = time.monotonic()
    demo.process.send_signal(signal.SIGINT)
    demo.output()
    assert time.monotonic() - began < STOPPED_WITHIN_S
    assert demo.process.returncode == 0
    assert not [process for process in family if process.is_running()]


def test_a_bad_setting_is_refused_before_anything_starts(state: Path) -> None:
    demo = DemoProcess(state, LOG_LEVEL="loud", TRACKING_TICK_MS="abc")
    output = demo.output()
    assert demo.process.returncode == 1
    assert "LOG_LEVEL is 'loud'" in output
    assert "TRACKING_TICK_MS is 'abc'" in output
    assert "Traceback" not in output
    assert not (state / "state" / "services").exists()


def test_it_is_refused_where_debug_is_off(state: Path) -> None:
    demo = DemoProcess(state, DEBUG="false")
    assert "DEBUG is off" in demo.output()
    assert demo.process.returncode == 1
