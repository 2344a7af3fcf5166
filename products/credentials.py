"""Secret references of a source: where a secret is kept, never the secret itself.

Before it: `Source.auth_secret`. After it: `importer`, which hands the value to `http`.
"""

import os
import re
from pathlib import Path

_REFERENCE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)|file:(/.+)")
# The project's own secrets must not be sendable to an address typed in the admin.
_FORBIDDEN = {
    "SECRET_KEY",
    "DATABASE_URL",
    "REDIS_URL",
    "TRACKING_REDIS_URL",
    "KAFKA_BOOTSTRAP_SERVERS",
}


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


def resolve(reference: str) -> str:
    """The secret; raises SecretMissing or ValueError, neither of which contains it."""
    check_reference(reference)
    where, _, name = reference.partition(":")
    if where == "env":
        value = os.environ.get(name, "")
    else:
        try:
            value = Path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise SecretMissing(f"{reference}: {error.strerror}") from error
    value = value.strip()
    if not value:
        raise SecretMissing(f"{reference} is not set on this server.")
    return value
