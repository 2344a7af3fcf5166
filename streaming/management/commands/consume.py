"""`manage.py consume`: the process around `consumer.StreamConsumer`."""

import logging
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from streaming.burial import database_address
from streaming.consumer import StreamConsumer
from streaming.kafka import FeedDead

logger = logging.getLogger(__name__)

STOP_WITHIN_S = 9.0
IDLE_S = 2.0


class Command(BaseCommand):
    help = (
        "Drain Kafka topics into the inbox and tell the workers.\n\n"
        "Example: manage.py consume --topics product-changes,fixes\n\n"
        "SIGTERM or Ctrl-C finishes the transaction, commits and leaves the group;"
        " a second one ends at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--group",
            default=settings.STREAMING_GROUP,
            help="Consumer group; its enabled subscriptions are read (%(default)s).",
        )
        parser.add_argument(
            "--topics",
            default="",
            help="Only these of its topics, separated by commas (default: all).",
        )
        parser.add_argument(
            "--once", action="store_true", help="Stop when nothing is left to read."
        )
        parser.add_argument(
            "--max-messages",
            type=int,
            default=0,
            help="Stop after this many, at the end of a batch (default: no limit).",
        )
        parser.add_argument(
            "--max-seconds", type=float, default=0, help="Stop then (default: never)."
        )

    def handle(self, **options: Any) -> None:
        if not settings.KAFKA_BOOTSTRAP_SERVERS:
            raise CommandError(
                "KAFKA_BOOTSTRAP_SERVERS is not set: give it the address of a broker,"
                " for example 127.0.0.1:9092."
            )
        stop = threading.Event()
        previous = _stop_on_signals(stop)
        topics = [name for name in options["topics"].split(",") if name.strip()]
        consumer = StreamConsumer(options["group"], topics=topics)
        try:
            kept = _loop(consumer, stop, options)
        except FeedDead as error:
            raise CommandError(f"The Kafka client gave up: {error}") from error
        finally:
            _close(consumer)
            for number, handler in previous.items():
                signal.signal(number, handler)
        if options["verbosity"]:
            self.stderr.write(f"Stopped; {kept} messages were made safe.")


def _loop(
    consumer: StreamConsumer, stop: threading.Event, options: dict[str, Any]
) -> int:
    kept, most = 0, options["max_messages"] or float("inf")
    until = time.monotonic() + (options["max_seconds"] or float("inf"))
    consumer.start()
    while not stop.is_set() and kept < most and time.monotonic() < until:
        kept += consumer.run_once()
        if options["once"] and consumer.has_read_all(IDLE_S):
            break
    return kept


def _close(consumer: StreamConsumer) -> None:
    """Leaving the group asks the broker; one that does not answer must not hold us."""
    watchdog = _watchdog()
    consumer.close()
    watchdog.cancel()


def _watchdog() -> threading.Timer:
    timer = threading.Timer(STOP_WITHIN_S, _give_up)
    timer.daemon = True
    timer.start()
    return timer


def _give_up() -> None:
    logger.warning(
        "Kafka at KAFKA_BOOTSTRAP_SERVERS=%s or the database at DATABASE_URL=%s held us"
        " for %.0f s; ending anyway. Nothing is lost.",
        settings.KAFKA_BOOTSTRAP_SERVERS,
        database_address(),
        STOP_WITHIN_S,
        extra={"action": "close_timed_out"},
    )
    os._exit(0)


def _stop_on_signals(stop: threading.Event) -> dict[signal.Signals, Any]:
    """The first signal asks, the second one ends at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        # From now on, as a step of the loop can hang as well.
        _watchdog()

    if threading.current_thread() is not threading.main_thread():
        return {}
    return {
        number: signal.signal(number, handle)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
