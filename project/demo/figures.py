"""What happened so far, read from `/metrics` of the web process.

Before it: every process counts into files of one folder. After it: `screen`.
"""

from collections import Counter
from dataclasses import dataclass, field

import httpx2
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Figures:
    """Totals since the demo started, each counted where it happened."""

    runs: dict[str, int] = field(default_factory=dict)  # job runs by state
    imports: dict[str, int] = field(default_factory=dict)  # import runs by outcome
    duplicates: int = 0  # messages for a tick that another process already had
    products: dict[str, int] = field(default_factory=dict)  # imported rows by outcome
    events: dict[str, int] = field(default_factory=dict)  # handled messages by outcome
    dead_letters: int = 0
    fixes: dict[str, int] = field(default_factory=dict)  # fixes by outcome
    frames: int = 0
    watchers: int = 0

    @property
    def silent_paths(self) -> list[str]:
        """The paths on which nothing happened."""
        happened = {
            "products": sum(self.products.values()),
            "streaming": self.events.get("done", 0),
            "tracking": self.fixes.get("accepted", 0),
        }
        return [path for path, count in happened.items() if not count]


def read(url: str, *, timeout_s: float = 2.0) -> Figures | None:
    """The figures at `url` (`http://host:port`), or None while it does not answer."""
    try:
        response = httpx2.get(f"{url}/metrics", timeout=timeout_s)
        response.raise_for_status()
    except httpx2.HTTPError:
        return None
    return parse(response.text)


def parse(exposition: str) -> Figures:
    """Figures from Prometheus' text exposition format."""
    families = {
        family.name: family for family in text_string_to_metric_families(exposition)
    }

    def by(name: str, label: str) -> dict[str, int]:
        return dict(_totals(families.get(name), label))

    def total(name: str) -> int:
        return sum(_totals(families.get(name), "").values())

    return Figures(
        runs=by("drover_jobs_runs", "state"),
        imports=by("drover_products_import_runs", "outcome"),
        duplicates=total("drover_jobs_duplicates"),
        products=by("drover_products_rows", "outcome"),
        events=by("drover_streaming_handled", "outcome"),
        dead_letters=total("drover_streaming_dead_letters"),
        fixes=by("drover_tracking_fixes", "outcome"),
        frames=total("drover_tracking_frames"),
        watchers=total("drover_tracking_watchers"),
    )


def _totals(family: Metric | None, label: str) -> Counter[str]:
    totals: Counter[str] = Counter()
    for sample in family.samples if family else ():
        if not sample.name.endswith("_created"):
            totals[sample.labels.get(label, "")] += int(sample.value)
    return totals
