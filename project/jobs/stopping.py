"""SIGTERM must end a run after its batch, in a worker's child as in a command.

Before it: Celery tells no pool child that its worker shuts down. After it:
`lease.check` raises Interrupted at the next batch.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from billiard import process as billiard
from celery.signals import worker_init, worker_process_init, worker_shutting_down

_stop = threading.Event()


def is_stopping() -> bool:
    return _stop.is_set()


def reset() -> None:
    """Forget an earlier signal; for a process that goes on, such as a test."""
    _stop.clear()


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Under a lease the first SIGTERM sets the stop event, a second one ends at once.

    Only the main thread may set handlers; elsewhere the event alone is looked at.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _on_sigterm(_number: int, _frame: FrameType | None) -> None:
    if _stop.is_set():
        raise SystemExit(128 + signal.SIGTERM)
    _stop.set()


def _set_stop(*_: Any) -> None:
    _stop.set()


@worker_init.connect
def _ignore_until_ready(**_: Any) -> None:
    """A child that has just been forked must survive the signal below."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


@worker_process_init.connect
def _listen_in_child(**_: Any) -> None:
    signal.signal(signal.SIGUSR2, _set_stop)


@worker_shutting_down.connect
def _tell_children(**_: Any) -> None:
    _stop.set()
    for child in billiard.active_children():
        if child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGUSR2)
