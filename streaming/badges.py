"""How states, ages and places look on the admin's pages: text with a sign, escaped.

Before it: rows of `models`. After it: `admin` and `letter_admin`.
"""

from datetime import datetime

from django.utils import timezone
from django.utils.safestring import SafeString

from project import badges
from project.badges import Looks
from streaming.models import DeadLetter

_LOOKS: Looks = {
    "new": ("✗", "bad"),
    "dead": ("✗", "bad"),
    "replaying": ("▶", "busy"),
    "ready": ("…", "busy"),
    "replayed": ("✓", "good"),
    "handled": ("✓", "good"),
    "discarded": ("⌫", "quiet"),
    "invalid": ("✗", "bad"),
    "failed": ("↻", "warn"),
    "lost": ("⚡", "bad"),
}


def badge(word: str) -> SafeString:
    """A state as a coloured label that can also be read without colours."""
    sign, tone = _LOOKS.get(word, ("?", "quiet"))
    return badges.badge(tone, sign, word)


def letter(row: DeadLetter) -> SafeString:
    """The state of a row of `dead_letters.with_followers`; green only with an effect."""
    if row.state == row.State.REPLAYED and getattr(row, "is_followed", False):
        return badges.badge("warn", "↻", "replayed, failed again")
    return badge(row.state)


def record_time(ts_ms: int) -> str:
    """ISO 8601 in UTC where a calendar has that time; the number as it came, always."""
    try:
        moment = datetime.fromtimestamp(ts_ms / 1000, timezone.get_fixed_timezone(0))
    except (ValueError, OverflowError, OSError):
        return f"{ts_ms} ms (in no calendar)"
    return f"{moment.isoformat(timespec='milliseconds')} ({ts_ms} ms)"
