"""What belongs to one folder and one machine: the demo's lock, port and secrets.

Before it: `manage.py demo`. After it: the services and processes start.
"""

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from django.conf import settings
from django.core.management import CommandError

from project import embedded
from project.demo import ready
from project.embedded.service import free_port

HOST = "127.0.0.1"
DEFAULT_PORT = 8000


@contextmanager
def only_one_demo() -> Iterator[None]:
    """Two demos in one folder would share their services' files."""
    embedded.make_private(settings.STATE_DIR)
    with settings.DEMO_LOCK_FILE.open("a+") as lock:
        if not _locked(lock):
            lock.seek(0)
            raise CommandError(
                f"A demo already runs here (process {lock.read() or 'unknown'}). "
                "Stop it with Ctrl-C first."
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _locked(lock: IO[str]) -> bool:
    """Try for a second: a command that reads its settings looks at the lock, too."""
    for _ in range(10):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
        else:
            return True
    return False


def choose_port(wanted: int | None) -> int:
    """The wanted port, else 8000, else a free one. Raises CommandError when taken."""
    port = wanted or DEFAULT_PORT
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as failure:
            if wanted:
                raise CommandError(f"Port {wanted}: {failure.strerror}.") from failure
            return free_port()
    return port


def kept_secret(name: str) -> str:
    """A random secret that stays the same for this folder, readable by its owner."""
    path = settings.STATE_DIR / name
    if not path.exists():
        ready.write_private(
            path, secrets.token_urlsafe(12 if "password" in name else 40)
        )
    return path.read_text()
