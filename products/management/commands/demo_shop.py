"""`manage.py demo_shop`: a local third-party shop with a drifting catalogue.

Before it: the demo, a test, or a newcomer. After it: `demo_server` until SIGTERM.
"""

import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from products.demo_server import Server, Shop, serve
from products.demo_shop import Catalogue
from products.models import Source
from products.schedule import ensure_schedule
from products.tasks import import_products

EVERY_S = 60


class Command(BaseCommand):
    help = (
        "Serve a made-up shop whose prices drift with time: /products, /feed.xml, "
        "/stats. Example: manage.py demo_shop --port 8801 --register"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, required=True, help="0: any free one.")
        parser.add_argument("--host", default="127.0.0.1", help="Default: 127.0.0.1.")
        parser.add_argument(
            "--products", type=int, default=5000, help="How many (default: 5000)."
        )
        parser.add_argument("--seed", type=int, default=1, help="Default: 1.")
        parser.add_argument(
            "--no-faults",
            action="store_true",
            help="Answer every request; otherwise 2 of 40 get 429 or 503.",
        )
        parser.add_argument(
            "--register",
            action="store_true",
            help="First make the source demo-shop, imported every minute.",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        host, port = options["host"], options["port"]
        catalogue = Catalogue(options["products"], options["seed"])
        try:
            server = serve(Shop(catalogue, not options["no_faults"]), host, port)
        except OSError as error:
            raise CommandError(f"Cannot listen on {host}:{port}: {error}") from error
        stop_at_signal(server)
        url = f"http://{host}:{server.server_port}"
        if options["register"]:
            source = register(url)
            # Somebody who starts the shop wants to see products before the minute is up.
            import_products.run_now(source_id=source.pk)
            self.stderr.write("Source demo-shop is imported now and every minute.")
        self.stdout.write(f"demo shop: {url}/products ({catalogue.size} products)")
        self.stdout.flush()
        with server:
            server.serve_forever(poll_interval=0.2)


def register(url: str) -> Source:
    """The source of this shop, at its present address, and its schedule."""
    source, _ = Source.objects.update_or_create(
        slug="demo-shop",
        defaults={"url": f"{url}/products", "enabled": True},
        create_defaults={
            "name": "Demo shop",
            "kind": "rest_json",
            "url": f"{url}/products",
            "currency": "EUR",
        },
    )
    ensure_schedule(source, EVERY_S)
    return source


def stop_at_signal(server: Server) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        # shutdown() waits for the loop that this very thread is in.
        threading.Thread(target=server.shutdown, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
