"""A dry run: the way of an import, without a lease, a run, or a write.

Before it: the command, with --dry-run. After it: what a real run would do, field by
field.
"""

from dataclasses import dataclass, field
from datetime import datetime

from products.compare import FieldChange, compare, differences
from products.http import SourceFailed
from products.importer import open_reader, tally_for, verdict, walk
from products.models import Source
from products.records import ProductRecord
from products.tally import Issue, Tally
from products.upsert import Outcomes

SHOWN = 200


@dataclass
class Preview:
    """`changes` holds the first 200 only, `created` the first 200 new ids."""

    tally: Tally
    outcome: str = ""
    error: str = ""
    complete: bool = False
    changes: list[FieldChange] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)


def preview(source: Source) -> Preview:
    """Read the whole source and compare it with the table."""
    result = Preview(tally_for(source))

    def write(records: list[ProductRecord], fetched_at: datetime) -> Outcomes:
        plan = compare(source, records, fetched_at)
        result.created += list(plan.new)[: SHOWN - len(result.created)]
        if len(result.changes) < SHOWN:
            found = differences(source, records, plan)
            result.changes += found[: SHOWN - len(result.changes)]
        return Outcomes(plan.outcomes)

    try:
        with open_reader(source, lambda: None) as reader:
            walk(reader, result.tally, write)
        result.complete = reader.complete
        result.outcome, result.error = verdict(source, reader, result.tally)
    except SourceFailed as failure:
        result.outcome, result.error = "failed", str(failure)
    result.issues = result.tally.take_issues()
    return result
