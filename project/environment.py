"""Strict readers of environment variables. They never stop the process by themselves.

After it: `project.settings` reads with them; `project.checks` refuses what they
noted, with an id and a hint, so that all mistakes are shown at once.
"""

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Problem:
    """One variable that cannot be used as it is."""

    variable: str
    value: str
    expected: str


def is_locked(path: Path) -> bool:
    """Does a living process hold the file's lock? The kernel frees it at any death."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class Environment:
    """Reads variables; a bad one becomes a `Problem` and the default is used."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def text(self, name: str, default: str = "") -> str:
        return os.environ.get(name, "").strip() or default

    def words(self, name: str, default: Sequence[str] = ()) -> list[str]:
        """A comma-separated list."""
        words = [word.strip() for word in self.text(name).split(",")]
        return [word for word in words if word] or list(default)

    def flag(self, name: str, *, default: bool) -> bool:
        raw = self.text(name).lower()
        if raw in {"true", "1", "yes", "on"}:
            return True
        if raw in {"false", "0", "no", "off"}:
            return False
        if raw:
            self._note(name, "true or false")
        return default

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number of [low, high]."""
        raw = self.text(name)
        if not raw:
            return default
        if raw.isascii() and raw.isdigit() and low <= int(raw) <= high:
            return int(raw)
        self._note(name, f"a whole number from {low} to {high}")
        return default

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        raw = self.text(name)
        for value in allowed:
            if raw.lower() == value.lower():
                return value
        if raw:
            self._note(name, f"one of {', '.join(allowed)}")
        return default

    def url(self, name: str, schemes: Sequence[str]) -> str:
        """An address with one of `schemes`, or empty."""
        raw = self.text(name)
        if raw and not _is_address(raw, schemes):
            # The value may hold a password: only its scheme is shown.
            scheme, mark, _ = raw.partition("://")
            shown = f"{scheme}://…" if mark else "(no scheme)"
            examples = " or ".join(f"{scheme}://host:port" for scheme in schemes)
            self.problems.append(Problem(name, shown, f"an address like {examples}"))
            return ""
        return raw

    def _note(self, name: str, expected: str) -> None:
        self.problems.append(Problem(name, self.text(name), expected))


def _is_address(raw: str, schemes: Sequence[str]) -> bool:
    """One of the schemes, and a port that is one."""
    try:
        parts, port = urlsplit(raw), urlsplit(raw).port
    except ValueError:
        return False
    return parts.scheme in schemes and port != 0
