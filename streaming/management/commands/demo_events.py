"""`manage.py demo_events`: a producer of product changes and fixes, some of them broken."""

import logging
import signal
import threading
import time
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, close_old_connections

from products.models import Product
from streaming import demo, kafka
from streaming.burial import database_address
from streaming.kafka import BrokerUnavailable
from streaming.models import Subscription
from tracking.models import Device, Fleet

logger = logging.getLogger(__name__)

FLEET = "Pipeline"
RETRY_S = 2.0
RELOAD_S = 30.0
SLICE_S = 0.1


def positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= 100_000:
        raise ArgumentTypeError(f"{text} is not between 0 and 100000")
    return value


class Command(BaseCommand):
    help = (
        "Produce product-change and fix events; about one in 200 is broken on purpose.\n\n"
        "Example: manage.py demo_events --rate 20\n\n"
        "Makes the topics, their subscriptions and the devices of the fleet Pipeline"
        " where they are missing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--rate", type=positive, default=10, help="Events per second (%(default)s)."
        )
        parser.add_argument(
            "--seconds", type=float, default=0, help="Stop then (default: never)."
        )
        parser.add_argument("--seed", type=int, help="Of the random choices.")

    def handle(self, **options: Any) -> None:
        if not settings.KAFKA_BOOTSTRAP_SERVERS:
            raise CommandError(
                "KAFKA_BOOTSTRAP_SERVERS is not set: give it the address of a broker."
            )
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        until = time.monotonic() + (options["seconds"] or float("inf"))
        stream = DemoStream(Random(options["seed"]), stop, until)  # noqa: S311
        sent = stream.run(options["rate"])
        if options["verbosity"]:
            self.stderr.write(f"Stopped; {sent} events produced.")


class DemoStream:
    """What is produced from, and the loop that does it."""

    def __init__(self, random: Random, stop: threading.Event, until: float) -> None:
        self.random, self.stop, self.until = random, stop, until
        self.products: list[demo.Product] = []
        self.devices: list[tuple[int, str]] = []
        self.sent = 0
        self._reload_at = 0.0

    def run(self, rate: float) -> int:
        """Produce until told to stop; returns how many events Kafka acknowledged."""
        producer = kafka.producer()
        due = 0.0
        while not self._is_over():
            if time.monotonic() >= self._reload_at and not self._prepared():
                self.stop.wait(RETRY_S)
                continue
            due = min(due + rate * SLICE_S, 2 * rate)
            for _ in range(int(due)):
                topic, key, value = self._event()
                producer.produce(topic, value, key, on_delivery=self._delivered)
            due -= int(due)
            producer.poll(0)
            self.stop.wait(SLICE_S)
        producer.flush(3)
        return self.sent

    def _is_over(self) -> bool:
        return self.stop.is_set() or time.monotonic() >= self.until

    def _prepared(self) -> bool:
        """Topics, subscriptions, devices, products; False while something is away."""
        try:
            kafka.ensure_topics(demo.TOPICS)
            close_old_connections()
            for topic in demo.TOPICS:
                Subscription.objects.ensure(topic, settings.STREAMING_GROUP)
            self.devices = _devices()
            self.products = _products()
        except BrokerUnavailable as error:
            logger.warning("%s", error, extra={"action": "kafka_unavailable"})
            return False
        except Error as error:
            logger.warning(
                "No answer from the database at DATABASE_URL=%s: %s. Trying again.",
                database_address(),
                str(error).partition("\n")[0],
                extra={"action": "database_unavailable"},
            )
            return False
        # The shop may be registered or imported any moment; then look more often.
        self._reload_at = time.monotonic() + (RELOAD_S if self.products else RETRY_S)
        return True

    def _event(self) -> demo.Event:
        now = datetime.now(UTC)
        if self.products and self.random.random() < 0.5:
            product = self.random.choice(self.products)
            return demo.product_change(product, now, self.random)
        return demo.fix(*self.random.choice(self.devices), now, self.random)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            self.sent += 1
            return
        # A topic that is gone is made again at once, as after a restart of the broker.
        self._reload_at = 0.0


def _devices() -> list[tuple[int, str]]:
    fleet, _ = Fleet.objects.get_or_create(name=FLEET)
    made = [
        Device.objects.get_or_create(
            fleet=fleet, name=name, defaults={"kind": Device.Kind.VESSEL}
        )[0]
        for name in demo.FERRIES
    ]
    return [(device.pk, device.name) for device in made]


def _products() -> list[demo.Product]:
    rows = Product.objects.filter(
        source__slug=demo.SOURCE, price__isnull=False, withdrawn_at__isnull=True
    )
    return [
        demo.Product(external_id, Decimal(price or 0), currency or "EUR", stock or 0)
        for external_id, price, currency, stock in rows.values_list(
            "external_id", "price", "currency", "stock"
        )[:5000]
    ]
