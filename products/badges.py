"""How outcomes, ages and counts look on the admin's pages: text with a sign.

Before it: rows of `models`. After it: `admin`.
"""

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from products.models import ImportRun
from products.tally import OUTCOMES
from project import badges
from project.badges import Looks

_LOOKS: Looks = {
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
    return badges.badge(tone, sign, text)


def run_badge(run: ImportRun) -> SafeString:
    """Its outcome; while it has none, what its job run says."""
    state = run.job_run.state if run.job_run else "unknown"
    return badge(run.outcome or state)


def counts(run: ImportRun) -> SafeString:
    """5,000 rows  12 updated  2 invalid (a link), and under it why it ended badly."""
    issues = f"{reverse('admin:products_rowissue_changelist')}?run__id__exact={run.pk}"
    parts = [("count-total", f"{run.seen:,} rows")] + [
        (f"count-{name}", f"{getattr(run, name):,} {name}")
        for name in OUTCOMES
        if getattr(run, name) and name != "invalid"
    ]
    numbers = format_html_join(" ", '<span class="count {}">{}</span>', parts)
    if run.invalid:
        link = '{} <a class="count count-invalid" href="{}">{} invalid</a>'
        numbers = format_html(link, numbers, issues, f"{run.invalid:,}")
    if not run.error:
        return numbers
    return format_html('{}<div class="why">{}</div>', numbers, run.error[:160])
