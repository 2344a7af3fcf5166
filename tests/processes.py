"""Real processes for races and journeys: started with the test database, always ended.

Before it: the fixture `processes` of `tests/conftest.py`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from django.db import connection

from project.embedded.service import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
STOP_TIMEOUT_S = 15.0
T = TypeVar("T")


class Processes:
    """Children that see the test database; their output goes to files of `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, **extra: str) -> dict[str, str]:
        url = urlsplit(os.environ["DATABASE_URL"])
        name = str(connection.settings_dict["NAME"])
        test_url = urlunsplit(url._replace(path=f"/{name}"))
        # urlunsplit drops the empty host of "postgres://user@/name?host=/socket".
        return os.environ | {"DATABASE_URL": test_url} | extra

    def start(
        self, name: str, command: list[str], **environment: str
    ) -> subprocess.Popen[bytes]:
        with self.log_file(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509
            )
        self.all[name] = process
        return process

    def manage(
        self, *arguments: str, name: str = "", **environment: str
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "manage.py", *arguments]
        return self.start(name or arguments[0], command, **environment)

    def celery(
        self, *arguments: str, name: str = "", **environment: str
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "-A", "project", *arguments]
        return self.start(name or arguments[0], command, **environment)

    def web(self, port: int, **environment: str) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-m", "uvicorn", "project.asgi:application"),
            *("--host", "127.0.0.1", "--port", str(port), "--lifespan", "off"),
            *("--ws", "websockets-sansio", "--ws-per-message-deflate", "false"),
            *("--ws-max-size", "131072"),
            *("--no-access-log", "--timeout-graceful-shutdown", "5"),
        ]
        return self.start("web", command, **environment)

    def log_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def log(self, name: str) -> str:
        return self.log_file(name).read_text(errors="replace")

    def wait_for(
        self, predicate: Callable[[], T], *, timeout: float = 20.0, what: str
    ) -> T:
        """The first true value of `predicate`; fails with the processes' logs."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if value := predicate():
                return value
            time.sleep(0.05)
        logs = "\n".join(f"--- {name}\n{self.log(name)[-3000:]}" for name in self.all)
        raise AssertionError(f"{what}: not within {timeout:.0f} s\n{logs}")

    def stop(self, name: str, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """End one process; returns its exit code. Kills what does not end in 15 s."""
        process = self.all.pop(name)
        if process.poll() is None:
            process.send_signal(with_signal)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_TIMEOUT_S)
            raise

    def stop_all(self) -> None:
        for process in self.all.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for name in list(self.all):
            self.stop(name)
