"""Bytes for human eyes: pretty, raw and hexadecimal, cut to a size. Pure.

Before it: the admin has a message. After it: a template escapes what comes from here.
"""

import base64
import json
from dataclasses import dataclass

MAX_SHOWN = 32 * 1024
MAX_HEX = 4 * 1024

Header = tuple[str, str | None, bool]


@dataclass(frozen=True)
class Shown:
    """`pretty` is "" where the bytes are no JSON; `is_null` differs from no bytes."""

    size: int
    is_null: bool
    is_cut: bool
    is_text: bool
    pretty: str
    raw: str
    hex_lines: list[str]


def show(value: bytes | None) -> Shown:
    """Never raises, whatever the bytes are."""
    data = value or b""
    return Shown(
        size=len(data),
        is_null=value is None,
        is_cut=len(data) > MAX_SHOWN,
        is_text=_is_text(data),
        pretty=_pretty(data[:MAX_SHOWN]) if len(data) <= MAX_SHOWN else "",
        raw=readable(data[:MAX_SHOWN]),
        hex_lines=_hex_lines(data[:MAX_HEX]),
    )


def readable(data: bytes) -> str:
    """Text where it is text; control characters and other bytes as escapes."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)


def headers(stored: list[list[str | None]]) -> list[Header]:
    """(name, value or None, whether the value is text) in their order."""
    shown: list[Header] = []
    for name, encoded in stored:
        if encoded is None:
            shown.append((name or "", None, True))
            continue
        data = base64.b64decode(encoded)
        is_text = _is_text(data)
        value = readable(data) if is_text else data.hex(" ")
        shown.append((name or "", value[:2000], is_text))
    return shown


def key(data: bytes | None) -> str:
    """One line for a list."""
    if data is None:
        return "(no key)"
    if not data:
        return "(empty)"
    text = readable(data[:60]).replace("\n", "\\n").replace("\t", "\\t")
    return text + ("…" if len(data) > 60 else "")


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return all(c.isprintable() or c in "\r\n\t" for c in text)


def _pretty(data: bytes) -> str:
    try:
        document = json.loads(data)
        text = json.dumps(document, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""
    return readable(text.encode("utf-8", "backslashreplace"))


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _hex_lines(data: bytes) -> list[str]:
    """`00000010  7b 22 61 …  {"a…`"""
    lines = []
    for start in range(0, len(data), 16):
        part = data[start : start + 16]
        text = "".join(chr(b) if 32 <= b < 127 else "·" for b in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {text}")
    return lines
