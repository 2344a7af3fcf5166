"""How outcomes, ages and counts look on the admin's pages: text with a sign, escaped.

Before it: rows of `models`. After it: `admin`.
"""

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from products.models import ImportRun
from products.tally import OUTCOMES

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
    age = timezone.now() - moment
    if age < timedelta(minutes=1):
        short = f"{max(0, int(age.total_seconds()))} s ago"
    else:
        short = f"{timesince(moment, depth=1)} ago"
    return format_html(
        '<span title="{}">{}</span>', exact.isoformat(timespec="milliseconds"), short
    )


def counts(run: ImportRun) -> SafeString:
    """5,000 rows  12 updated  2 invalid, and under it why it ended badly."""
    parts = [(f"{run.seen:,} rows", "total")] + [
        (f"{getattr(run, name):,} {name}", name)
        for name in OUTCOMES
        if getattr(run, name)
    ]
    numbers = format_html_join(" ", '<span class="count count-{1}">{0}</span>', parts)
    if not run.error:
        return numbers
    return format_html('{}<div class="why">{}</div>', numbers, run.error[:160])
