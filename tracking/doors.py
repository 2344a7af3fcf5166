"""What every door shares: a batch answered item by item, a bad fix counted.

Before it: `tracking.consumers` and `tracking.views`. After it: `tracking.ingest`.
"""

from tracking.fixes import Fix, InvalidFix
from tracking.ingest import FIXES, Sender, accept
from tracking.protocols import native


async def accept_batch(
    device: Sender, raw: object, *, door: str = "native"
) -> list[str]:
    """A JSON list of fixes → one answer for each; bad ones cost nothing to the others.

    Raises InvalidFix when it is no such list, and Unavailable.
    """
    parsed = native.fixes(raw)
    good = [item for item in parsed if isinstance(item, Fix)]
    answers = iter([outcome.text for outcome in await accept(device, good, door=door)])
    for item in parsed:
        if isinstance(item, InvalidFix):
            count_invalid(door, item)
    return [
        next(answers) if isinstance(item, Fix) else f"invalid:{item.reason}"
        for item in parsed
    ]


def count_invalid(door: str, error: InvalidFix) -> None:
    FIXES.labels(door, f"invalid:{error.reason}").inc()
