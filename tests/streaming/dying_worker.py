"""`python -m tests.streaming.dying_worker LANES`: drains, and dies of a poison message.

Each attempt is a forked process of its own. Prints how many of them died until one came
to the end of the work.
"""

import json
import os
import sys
import time
from collections.abc import Sequence

import django

MOST = 12
PATIENCE_S = 20.0


def main(lane_ids: Sequence[int]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    # All that is slow to import, once.
    from tests.streaming import builders  # noqa: F401

    for deaths in range(MOST):
        # No connection is open here, so the children share none.
        if (child := os.fork()) == 0:
            work(lane_ids)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            sys.stdout.write(f"{deaths}\n")
            return 0
    return 1


def work(lane_ids: Sequence[int]) -> None:
    from streaming import lanes
    from streaming.handlers import Message
    from streaming.models import InboxMessage, Lane
    from tests.streaming.builders import handles

    def apply(message: Message) -> str:
        if message.event.text == "poison":
            os._exit(9)
        return "ok"

    ready = InboxMessage.objects.filter(status=InboxMessage.Status.READY)
    deadline = time.monotonic() + PATIENCE_S
    # The server needs a moment to end the transaction of the one that died.
    while ready.exists() and time.monotonic() < deadline:
        # The lease of the one before is over.
        Lane.objects.filter(lease_until__isnull=False).update(
            lease_until="2020-01-01T00:00:00Z"
        )
        lanes.drain(lane_ids, handles(apply))


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
