"""How states, ages and durations look in the admin: a sign and a word, never colour alone.

Before it: `models`. After it: `admin`, `schedule_admin`.
"""

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from project.jobs.models import JobRun, State

# State → (sign, tone). The tone is a class of jobs/admin.css.
LOOKS: dict[str, tuple[str, str]] = {
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


def badge(tone: str, sign: str, text: str) -> SafeString:
    return format_html('<span class="badge badge-{}">{} {}</span>', tone, sign, text)


def state_badge(run: JobRun) -> SafeString:
    sign, tone = LOOKS[run.state]
    return badge(tone, sign, run.get_state_display())


def moment(at: datetime | None) -> SafeString | str:
    """`3 min ago` or `in 20 s`; the exact instant on hover."""
    if at is None:
        return "-"
    seconds = (at - timezone.now()).total_seconds()
    span = _span(abs(seconds))
    text = f"in {span}" if seconds > 0 else f"{span} ago"
    return format_html('<span title="{}">{}</span>', _exact(at), text)


def exact(at: datetime | None) -> SafeString | str:
    """`2026-12-01 15:14:00.000 UTC`, its age beside it."""
    return format_html("{} ({})", _exact(at), moment(at)) if at else "-"


def _exact(at: datetime) -> str:
    local = at.astimezone(timezone.get_current_timezone())
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03} {local:%Z}"


def _span(seconds: float) -> str:
    """Whole units, the largest that fits: `20 s`, `3 min`, `5 h`, `2 d`."""
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


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
