"""How outcomes, ages and counts look on the admin's pages: text with a sign, escaped.

Before it: rows of `models`. After it: `admin`.
"""

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from products.models import ImportRun

# Outcome or state → (sign, tone). The tone is a class of products/admin.css.
_LOOKS = {
    "succeeded": ("✓", "good"),
    "not_modified": ("✓", "good"),
    "running": ("▶", "busy"),
    "queued": ("…", "busy"),
    "partial": ("!", "warn"),
    "deferred": ("⏲", "warn"),
    "blocked": ("⛔", "bad"),
    "failed": ("✗", "bad"),
    "in_stock": ("●", "good"),
    "low_stock": ("◐", "warn"),
    "out_of_stock": ("○", "bad"),
}


def badge(word: str) -> SafeString:
    """A state as a coloured label that can also be read without colours."""
    sign, tone = _LOOKS.get(word, ("?", "quiet"))
    text = word.replace("_", " ")
    return format_html('<span class="badge badge-{}">{} {}</span>', tone, sign, text)


def run_badge(run: ImportRun) -> SafeString:
    """Its outcome; while it has none, what its job run says."""
    state = run.job_run.state if run.job_run else "unknown"
    return badge(run.outcome or state)


def ago(moment: datetime | None) -> SafeString | str:
    """Relative time, the exact one on hover."""
    if moment is None:
        return "never"
    exact = moment.astimezone(timezone.get_current_timezone())
    is_fresh = timezone.now() - moment < timedelta(minutes=1)
    short = "just now" if is_fresh else f"{timesince(moment, depth=1)} ago"
    return format_html(
        '<span title="{}">{}</span>', exact.isoformat(timespec="milliseconds"), short
    )


def counts(run: ImportRun) -> str:
    """5,000 seen: 12 updated, 4,988 unchanged"""
    names = ("created", "updated", "unchanged", "restored", "invalid", "duplicate")
    parts = [f"{getattr(run, n):,} {n}" for n in names if getattr(run, n)]
    return f"{run.seen:,} seen" + (f": {', '.join(parts)}" if parts else "")
