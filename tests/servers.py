"""A pytest plugin: PostgreSQL, Valkey and a broker, started before Django reads settings.

Named in `addopts`. The suite never touches the servers of the environment; to run it
against real ones say so with TEST_DATABASE_URL, TEST_REDIS_URL and
TEST_KAFKA_BOOTSTRAP_SERVERS.
"""

import atexit
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import psutil

from project import embedded

STATE = Path(__file__).resolve().parent.parent / ".drover"
VARIABLES = ("DATABASE_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS")


def _remove_leftovers() -> None:
    """Folders of runs that were killed."""
    for folder in STATE.glob("test-*"):
        if not psutil.pid_exists(int(folder.name.removeprefix("test-"))):
            shutil.rmtree(folder, ignore_errors=True)


def _start() -> None:
    for variable in VARIABLES:
        os.environ.pop(variable, None)
        if address := os.environ.get(f"TEST_{variable}"):
            os.environ[variable] = address
    os.environ |= {
        "DEBUG": "true",
        "SECRET_KEY": "not-a-secret-in-tests",
        "DROVER_IGNORE_DEMO": "1",
        "LOG_FORMAT": "console",
    }
    embedded.make_private(STATE)
    _remove_leftovers()
    folder = STATE / f"test-{os.getpid()}"
    stack = ExitStack()
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(stack.close)
    stack.enter_context(embedded.running(folder, durable=False))


_start()
