"""What the demo says: the table of addresses, the status line, the closing report.

Before it: `figures`. Data goes to standard output, progress to standard error.
"""

import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from project.demo.figures import Figures

PLAIN_LINE_EVERY_S = 10.0
FIRST_LOOKS = (
    "the map: click a vehicle in the list, the map follows it",
    "Admin → Scheduled jobs → Job runs: three schedulers, one run a minute",
    "Admin → Event stream → Dead letters: open one, correct it, replay it",
)


def print_addresses(console: Console, document: Mapping[str, str]) -> None:
    """Where to look and how to log in."""
    table = Table(show_header=False, box=None, padding=(0, 2), title_justify="left")
    table.add_column(style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(style="dim")
    table.add_row("Live map", document["map"], "start here")
    table.add_row("Admin", document["admin"], "imports, jobs, dead letters")
    table.add_row("Phone page", document["phone"], "track this browser")
    table.add_row("Metrics", document["metrics"], "for Prometheus")
    table.add_row("Log in as", f"{document['user']} / {document['password']}", "")
    console.print()
    console.print(table)
    console.print("\n  Look at first:")
    for number, text in enumerate(FIRST_LOOKS, start=1):
        console.print(f"  [bold]{number}[/]  {text}", highlight=False)
    console.print("  Ctrl-C stops everything.\n", highlight=False)


def status(figures: Figures | None, seconds: float) -> str:
    """One line: how long, and what happened on each path."""
    if figures is None:
        return f"{clock(seconds)}  the web process does not answer"
    return (
        f"{clock(seconds)}  imports {sum(figures.imports.values())}"
        f"  ·  events {sum(figures.events.values()):,}"
        f" ({figures.dead_letters} dead letters)"
        f"  ·  fixes {sum(figures.fixes.values()):,}"
        f"  ·  watching {figures.watchers} ({figures.frames:,} frames)"
    )


def clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))


class StatusLine:
    """A live line where standard error is a terminal, else a line every 10 s."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._next_plain_at = 0.0

    def __enter__(self) -> "StatusLine":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, line: Callable[[], str]) -> None:
        if self.console.is_terminal:
            self._live.update(
                Text(line(), overflow="ellipsis", no_wrap=True), refresh=True
            )
        elif time.monotonic() >= self._next_plain_at:
            self._next_plain_at = time.monotonic() + PLAIN_LINE_EVERY_S
            self.console.print(line(), highlight=False, soft_wrap=True)


def print_report(console: Console, figures: Figures, died: Mapping[str, int]) -> None:
    """What happened, for people and for scripts that read lines."""
    table = Table(title="What happened", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for label, value in (
        ("job runs", _by_outcome(figures.runs)),
        ("ticks another process had", f"{figures.duplicates:,}"),
        ("imports", _by_outcome(figures.imports)),
        ("product rows", _by_outcome(figures.products)),
        ("events handled", _by_outcome(figures.events)),
        ("dead letters", f"{figures.dead_letters:,}"),
        ("fixes", _by_outcome(figures.fixes)),
        ("frames to watchers", f"{figures.frames:,}"),
        (
            "processes that died",
            ", ".join(f"{n} ({c})" for n, c in died.items()) or "none",
        ),
    ):
        table.add_row(label, value)
    console.print(table)


def _by_outcome(counts: Mapping[str, int]) -> str:
    parts = (f"{name} {count:,}" for name, count in sorted(counts.items()) if count)
    return ", ".join(parts) or "none"
