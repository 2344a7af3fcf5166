"""`python -m tests.streaming.produce TOPIC FILE`: JSON lines into Kafka.

A process of its own, because a crash of the client library takes its process with it.
Each line is `[key, value]`, both base64 or null. Exits non-zero unless all were taken.
"""

import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import orjson

from tests.processes import ROOT, Processes

Pair = tuple[bytes | None, bytes | None]


def produce(
    processes: Processes,
    topic: str,
    pairs: Iterable[Pair],
    *,
    broker: str = "",
) -> None:
    """Make the topic where it is missing, and put these records into it."""
    path = processes.folder / f"{topic}-{time.monotonic_ns()}.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps([_text(k), _text(v)]) for k, v in pairs))
    environment = {"KAFKA_BOOTSTRAP_SERVERS": broker} if broker else {}
    command = [sys.executable, "-m", __name__, topic, str(path)]
    subprocess.run(
        command,
        cwd=ROOT,
        env=processes.environment(**environment),
        timeout=40,
        check=True,
    )


def _text(part: bytes | None) -> str | None:
    return None if part is None else base64.b64encode(part).decode()


def _bytes(part: str | None) -> bytes | None:
    return None if part is None else base64.b64decode(part)


def main(topic: str, path: str) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from streaming import kafka

    kafka.ensure_topics({topic: 4})
    producer = kafka.producer()
    lines = Path(path).read_bytes().splitlines()
    for line in lines:
        key, value = (_bytes(part) for part in orjson.loads(line))
        # None must stay None: a null value is a tombstone.
        producer.produce(topic, value=value, key=key)
        producer.poll(0)
    return producer.flush(20)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
