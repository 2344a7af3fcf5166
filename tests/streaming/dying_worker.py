"""`python -m tests.streaming.dying_worker LANES`: drains, and dies of a poison message.

Exits with 0 once nothing is left, with 9 when the message killed it.
"""

import json
import os
import sys

import django


def main(lane_ids: list[int]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from streaming import lanes, leases
    from streaming.handlers import Message
    from tests.streaming.builders import handles

    def apply(message: Message) -> str:
        if message.event.text == "poison":
            os._exit(9)
        return "ok"

    leases.LEASE_S = 1
    lanes.drain(lane_ids, handles(apply))
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
