"""What PostgreSQL, Valkey and the broker have in common when they come from wheels.

Before it: `embedded.start_missing`, which knows which addresses are already given.
After it: one file per service says how to prepare, start and probe it.
"""

import ctypes
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import psutil

STARTS = 3  # A free port may be taken between looking for it and using it.
STOP_TIMEOUT_S = 8.0
PR_SET_PDEATHSIG = 1


class ServiceFailed(Exception):
    """An embedded service cannot run here; the message says why and what to do."""


class Service(ABC):
    """One server process of this machine: `start()`, `ready()`, `url`, `stop()`.

    It listens on loopback or a Unix socket only, keeps its files under `folder`
    (0700) and ends with the process that started it.
    """

    name: str
    #: The environment variable that takes an external address instead.
    variable: str
    ready_timeout_s: float
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The address in the form the environment variable takes."""

    @abstractmethod
    def prepare(self) -> None:
        """Files, ports and accounts, before every attempt to start."""

    @abstractmethod
    def command(self) -> list[str]:
        """The server in the foreground."""

    @abstractmethod
    def ready(self) -> bool:
        """Does it answer its own protocol now? Never raises."""

    def finish_start(self) -> None:  # noqa: B027 (most services need nothing)
        """What must exist once it answers (a database, say)."""

    @property
    def log_file(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def start(self) -> None:
        """Start it and wait until it answers. Raises ServiceFailed with the log's end."""
        make_private(self.folder)
        self._end_leftover()
        for _ in range(STARTS):
            self.prepare()
            self._spawn()
            if self._wait_until_ready():
                self.finish_start()
                return
            self.stop()
        raise ServiceFailed(
            f"The embedded {self.name} did not start within {self.ready_timeout_s:.0f} s. "
            f"Set {self.variable} to use a server of your own. Its log ends with:\n"
            f"{self._log_end()}"
        )

    def stop(self) -> None:
        """End it; kill it when it does not end within 8 s. Safe to call twice."""
        if self.process is None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_TIMEOUT_S)
        self.process = None
        self._pid_file.unlink(missing_ok=True)

    def _spawn(self) -> None:
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own group: Ctrl-C in the terminal must not reach it before
                # the processes that still use it have ended.
                start_new_session=True,
                preexec_fn=die_with_parent(self.stop_signal),  # noqa: PLW1509
            )
        started = psutil.Process(self.process.pid).create_time()
        self._pid_file.write_text(f"{self.process.pid} {started}")

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + self.ready_timeout_s
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                return False
            if self.ready():
                return True
            time.sleep(0.02)
        return False

    def _end_leftover(self) -> None:
        """A server whose parent was killed where the kernel tells no child (macOS)."""
        try:
            pid, started = self._pid_file.read_text().split()
            leftover = psutil.Process(int(pid))
            # A pid may have gone to somebody else since; the start time tells.
            if leftover.create_time() == float(started):
                leftover.send_signal(self.stop_signal)
                leftover.wait(STOP_TIMEOUT_S)
        except (OSError, ValueError, psutil.Error):
            return

    def _log_end(self, lines: int = 15) -> str:
        try:
            text = self.log_file.read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(an empty log)"


def make_private(folder: Path) -> None:
    """Create `folder` and its parents; nobody but the owner may look inside it."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)


def package_folder(package: str) -> Path:
    """Where a wheel lies, without importing it. Raises ServiceFailed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ServiceFailed(
            f"The package {package} is not installed: run `make demo` or `make test` "
            "once, or `pip install -r requirements.txt`."
        )
    return Path(spec.origin).parent


def free_port() -> int:
    """A loopback TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int, request: bytes, expected: bytes) -> bool:
    """Does the loopback port answer `request` with something that holds `expected`?"""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
            connection.settimeout(0.5)
            connection.sendall(request)
            return expected in connection.recv(512)
    except OSError:
        return False


def new_password() -> str:
    return secrets.token_urlsafe(24)


def die_with_parent(with_signal: signal.Signals) -> Callable[[], None] | None:
    """For `preexec_fn`: the kernel signals the child when its parent ends (Linux)."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def set_death_signal() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)
        if os.getppid() != parent:  # It ended between fork and prctl.
            os._exit(1)

    return set_death_signal
