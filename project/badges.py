"""How states and instants look on every admin page: a sign and a word, never colour alone.

After it: each app's `badges`, which knows its own states. The tones are classes of
project/admin.css.
"""

from datetime import datetime
from typing import Literal

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

Tone = Literal["good", "busy", "warn", "bad", "quiet"]
#: State → (sign, tone).
Looks = dict[str, tuple[str, Tone]]

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def badge(tone: str, sign: str, text: str) -> SafeString:
    return format_html('<span class="badge badge-{}">{} {}</span>', tone, sign, text)


def moment(at: datetime | None, *, absent: str = "-") -> SafeString | str:
    """`3 min ago` or `in 20 s`; the exact instant on hover. None: `absent`."""
    if at is None:
        return absent
    seconds = (at - timezone.now()).total_seconds()
    text = f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"
    return format_html('<span title="{}">{}</span>', exact(at), text)


def exact(at: datetime) -> str:
    """`2026-12-01 15:14:00.000 UTC`."""
    local = at.astimezone(timezone.get_current_timezone())
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03} {local:%Z}"


def span(seconds: float) -> str:
    """Whole units, the largest that fits: `20 s`, `3 min`, `5 h`, `2 d`."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"
