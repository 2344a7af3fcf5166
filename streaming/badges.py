"""How states, ages and places look on the admin's pages: text with a sign, escaped.

Before it: rows of `models`. After it: `admin` and `letter_admin`.
"""

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

# State → (sign, tone). The tone is a class of streaming/admin.css.
_LOOKS = {
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
    return format_html('<span class="badge badge-{}">{} {}</span>', tone, sign, word)


def ago(moment: datetime | None) -> SafeString | str:
    """Relative time, the exact one in milliseconds on hover."""
    if moment is None:
        return "-"
    is_fresh = timezone.now() - moment < timedelta(minutes=1)
    short = "just now" if is_fresh else f"{timesince(moment, depth=1)} ago"
    exact = moment.isoformat(timespec="milliseconds")
    return format_html('<span title="{}">{}</span>', exact, short)


def record_time(ts_ms: int) -> str:
    """ISO 8601 in UTC where a calendar has that time; the number as it came, always."""
    try:
        moment = datetime.fromtimestamp(ts_ms / 1000, timezone.get_fixed_timezone(0))
    except (ValueError, OverflowError, OSError):
        return f"{ts_ms} ms (in no calendar)"
    return f"{moment.isoformat(timespec='milliseconds')} ({ts_ms} ms)"
