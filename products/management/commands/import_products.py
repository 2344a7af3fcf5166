"""`manage.py import_products SOURCE`: one import now, or what it would do.

Before it: an operator or cron. After it: `importer` under the source's own lease.
"""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from products.importer import ImportFailed, import_source
from products.models import ImportRun, Source
from products.preview import SHOWN, Preview, preview
from products.tally import OUTCOMES
from project.jobs.lease import Held, NotClaimed, StopRun, hold

SCHEMA = "drover.import/1"
FAILED, ROW_ERRORS, TRY_LATER = 1, 3, 75


class Command(BaseCommand):
    help = (
        "Import the products of one source now. Example: "
        "manage.py import_products demo-shop --dry-run"
    )
    requires_migrations_checks = True

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", help="The slug of a source.")
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Read and compare, write nothing; shows the first 200 differences.",
        )
        parser.add_argument(
            "--format", choices=["text", "json"], default="text", help="Default: text."
        )
        parser.add_argument(
            "--fail-on-errors",
            action="store_true",
            help="Exit with 3 when rows were refused (default: 0).",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        self.as_json = options["format"] == "json"
        source = self._source(options["source"])
        report = self._dry_run(source) if options["dry_run"] else self._import(source)
        self._print(report)
        if report["outcome"] == "failed":
            raise CommandError(report["error"], returncode=FAILED)
        if report["counts"]["invalid"] and options["fail_on_errors"]:
            raise CommandError("Rows were refused.", returncode=ROW_ERRORS)

    def _source(self, slug: str) -> Source:
        try:
            return Source.objects.get(slug=slug)
        except Source.DoesNotExist:
            known = ", ".join(Source.objects.values_list("slug", flat=True)) or "none"
            raise self._error(f"No source {slug!r}. Known sources: {known}.") from None

    def _import(self, source: Source) -> dict[str, Any]:
        try:
            with hold("import-products", {"source_id": source.pk}, ttl=30) as lease:
                return run_report(import_source(source, lease))
        except ImportFailed as failed:
            return run_report(failed.run)
        except Held as held:
            raise self._error(f"{held} Try later.", TRY_LATER) from held
        except (NotClaimed, StopRun) as refused:
            raise self._error(str(refused), TRY_LATER) from refused

    def _dry_run(self, source: Source) -> dict[str, Any]:
        return preview_report(source, preview(source))

    def _error(self, message: str, returncode: int = FAILED) -> CommandError:
        if self.as_json:
            self.stdout.write(json.dumps({"schema": SCHEMA, "error": message}))
        return CommandError(message, returncode=returncode)

    def _print(self, report: dict[str, Any]) -> None:
        if self.as_json:
            self.stdout.write(json.dumps({"schema": SCHEMA, **report}, default=str))
            return
        for change in report.get("changes", ()):
            self.stdout.write(
                f"  {change['external_id']} {change['field']}: "
                f"{change['old']} → {change['new']}"
            )
        for issue in report["issues"]:
            self.stdout.write(
                f"  row {issue['row']} refused: {issue['field']}: {issue['message']}"
            )
        # Last, where it stays on the screen after many lines.
        self.stdout.write(summary(report))


def summary(report: dict[str, Any]) -> str:
    """One sentence, and why where the run did not simply succeed."""
    dry = "Dry run, nothing was written: " if report["dry_run"] else ""
    counts = report["counts"]
    numbers = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name])
    reason = f" {report['error']}" if report["error"] else ""
    return (
        f"{dry}{report['source']}: {report['outcome']}.{reason} "
        f"{counts['seen']} seen: {numbers or 'nothing'}."
    )


def run_report(run: ImportRun) -> dict[str, Any]:
    names = ("seen", *OUTCOMES)
    issues = run.issues.values("row", "external_id", "field", "code", "message")
    return {
        "source": run.source.slug,
        "dry_run": False,
        "run": run.pk,
        "outcome": str(run.outcome),
        "error": run.error,
        "complete": run.complete,
        "counts": {name: getattr(run, name) for name in names},
        "issues": list(issues[:SHOWN]),
    }


def preview_report(source: Source, result: Preview) -> dict[str, Any]:
    issues = [
        {
            "row": issue.row,
            "external_id": issue.reason.external_id,
            "field": issue.reason.field,
            "code": issue.reason.code,
            "message": issue.reason.message,
        }
        for issue in result.issues[:SHOWN]
    ]
    return {
        "source": source.slug,
        "dry_run": True,
        "outcome": str(result.outcome),
        "error": result.error,
        "complete": result.complete,
        "counts": result.tally.counts,
        "issues": issues,
        "created": result.created,
        "changes": [asdict(change) for change in result.changes],
    }
