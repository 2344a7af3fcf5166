"""How states, ages and durations look in the admin: a sign and a word, never colour alone.

Before it: `models`. After it: `admin`, `schedule_admin`.
"""

from datetime import datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from project import badges
from project.badges import Looks, badge, moment
from project.jobs.models import JobRun, State

__all__ = ["badge", "moment"]

LOOKS: Looks = {
    State.QUEUED: ("…", "busy"),
    State.RUNNING: ("▶", "busy"),
    State.SUCCEEDED: ("✓", "good"),
    State.FAILED: ("✗", "bad"),
    State.INTERRUPTED: ("■", "warn"),
    State.LOST: ("✗", "bad"),
    State.STALLED: ("✗", "bad"),
    State.ABANDONED: ("☠", "bad"),
    State.SKIPPED: ("↷", "quiet"),
    State.MISSED: ("∅", "warn"),
    State.EXPIRED: ("◷", "warn"),
    State.STORE_DOWN: ("⚡", "bad"),
    State.COALESCED: ("↷", "quiet"),
}


def state_badge(run: JobRun) -> SafeString:
    sign, tone = LOOKS[run.state]
    return badge(tone, sign, run.get_state_display())


def exact(at: datetime | None) -> SafeString | str:
    """`2026-12-01 15:14:00.000 UTC`, its age beside it."""
    return format_html("{} ({})", badges.exact(at), moment(at)) if at else "-"


def duration(span: timedelta | None) -> str:
    """`240 ms`, `3.2 s`, `4 min 10 s`."""
    if span is None:
        return "-"
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def with_note(main: object, note: object) -> SafeString:
    """A value and, on the next line in small print, what belongs to it."""
    return format_html('{}<div class="note">{}</div>', main, note)


def counts(run: JobRun) -> SafeString | str:
    """`5,000 seen  12 updated`: what the run counted, zeros left out."""
    pairs = [
        (f"{value:,}", name.replace("_", " "))
        for name, value in run.counts.items()
        if isinstance(value, int) and value
    ]
    return format_html_join(" ", '<span class="count">{} {}</span>', pairs) or "-"
