"""Secret references of a source: where a secret is kept, never the secret itself.

Before it: `Source.auth_secret`. After it: `importer`, which hands the value to `http`.
"""

import os
import re
from pathlib import Path

from django.conf import settings

_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)|file:(/.+)")
# The project's own secrets must not be sendable to an address typed in the admin.
_FORBIDDEN = {
    "SECRET_KEY",
    "DATABASE_URL",
    "REDIS_URL",
    "TRACKING_REDIS_URL",
    "KAFKA_BOOTSTRAP_SERVERS",
}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What lies there is the server's own: its environment, its keys, or endless.
_NOT_FILES = ("/proc", "/sys", "/dev")
MAX_BYTES = 16 * 1024


class SecretMissing(LookupError):
    """The reference is well formed, but nothing is kept there."""


def check_reference(reference: str) -> None:
    """Raises ValueError with what to write instead; "" is no secret, and fine."""
    if not reference:
        return
    match = _REFERENCE.fullmatch(reference)
    if not match:
        raise ValueError("Write env:NAME or file:/path, not the secret itself.")
    if match[1] in _FORBIDDEN:
        raise ValueError(f"{match[1]} belongs to this server and is never sent out.")


def check_header(name: str) -> None:
    """Raises ValueError for a name that HTTP cannot send; "" is the default's."""
    if name and not _HEADER_NAME.fullmatch(name):
        raise ValueError("Write a header's name, such as Authorization or X-API-Key.")


def resolve(reference: str) -> str:
    """The secret; raises SecretMissing or ValueError, neither of which contains it."""
    check_reference(reference)
    where, _, name = reference.partition(":")
    value = os.environ.get(name, "") if where == "env" else _content(Path(name))
    value = value.strip()
    if not value:
        raise SecretMissing(f"{reference} is not set on this server.")
    if not (value.isascii() and value.isprintable()):
        raise SecretMissing(f"{reference} holds what an HTTP header cannot carry.")
    return value


def _content(file: Path) -> str:
    """What the file holds. Raises SecretMissing, and ValueError where it may not go."""
    try:
        path = file.resolve(strict=True)
        forbidden = (*_NOT_FILES, settings.STATE_DIR)
        if any(path.is_relative_to(folder) for folder in forbidden):
            raise ValueError(f"{file} belongs to this server and is never sent out.")
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            raise SecretMissing(f"{file} is no file of a few letters.")
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SecretMissing(f"file:{file}: {reason}") from error
