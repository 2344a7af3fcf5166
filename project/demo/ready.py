"""When is the demo up, and the document that says so to other programs."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from project.demo import figures
from project.demo.processes import Supervisor

READY_TIMEOUT_S = 90.0


class NotReady(Exception):
    """The demo did not come up; the message names the part and shows its log."""


def wait_until_ready(
    supervisor: Supervisor, url: str, shop_url: str, stopping: Callable[[], bool]
) -> None:
    """Until the web process is ready, the shop answers and vehicles report.

    Raises NotReady after 90 s, or at once when a process ends.
    """
    parts: dict[str, Callable[[], bool]] = {
        "web": lambda: _ok(f"{url}/readyz"),
        "shop": lambda: _ok(f"{shop_url}/stats"),
        "fleet": lambda: _has_fixes(url),
    }
    deadline = time.monotonic() + READY_TIMEOUT_S
    while parts and not stopping():
        for program, code in supervisor.look().items():
            raise NotReady(
                f"{program.name} ended with code {code}:\n{supervisor.log_end(program)}"
            )
        parts = {name: ready for name, ready in parts.items() if not ready()}
        if parts and time.monotonic() > deadline:
            waiting = next(p for p in supervisor.running if p.name in parts)
            raise NotReady(
                f"{', '.join(parts)} not ready within {READY_TIMEOUT_S:.0f} s; the log of "
                f"{waiting.name} ends with:\n{supervisor.log_end(waiting)}"
            )
        time.sleep(0.1)


def write_private(path: Path, text: str) -> None:
    """Write `text` whole or not at all; nobody but the owner may read it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)


def write_ready_file(path: Path, document: dict[str, object]) -> None:
    write_private(path, json.dumps(document, indent=2) + "\n")


def _ok(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=2).is_success
    except httpx2.HTTPError:
        return False


def _has_fixes(url: str) -> bool:
    found = figures.read(url)
    return found is not None and sum(found.fixes.values()) > 0
