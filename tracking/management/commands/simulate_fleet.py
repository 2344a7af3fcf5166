"""Drive simulated vehicles through the server's own doors.

Before it: a running web process. After it: moving markers on the live map.
"""

import asyncio
import contextlib
import signal
from argparse import ArgumentParser
from functools import partial
from random import Random
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from tracking.auth import create_token
from tracking.models import Device, DeviceToken, Fleet
from tracking.simulated_doors import Tally, drive, form_door, socket_door
from tracking.simulation import Vehicle

REPORT_EVERY_S = 10.0
NAMES = ("Truck", "Van", "Coach")


class Command(BaseCommand):
    help = (
        "Drive a simulated fleet between European cities. Two thirds send by websocket, "
        "one third by the form of Traccar Client. Example: "
        "manage.py simulate_fleet --vehicles 60 --url http://127.0.0.1:8000"
    )
    requires_migrations_checks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--vehicles", type=int, default=60, help="how many (default: 60)"
        )
        parser.add_argument(
            "--url",
            default="http://127.0.0.1:8000",
            help="where the web process answers (default: http://127.0.0.1:8000)",
        )
        parser.add_argument(
            "--seconds", type=float, default=0, help="stop after this long (0: never)"
        )
        parser.add_argument(
            "--speedup", type=float, default=30, help="times faster (default: 30)"
        )
        parser.add_argument(
            "--interval", type=float, default=1.0, help="seconds between fixes"
        )
        parser.add_argument("--seed", type=int, default=1, help="same seed, same fleet")
        parser.add_argument(
            "--fleet", default="Demo", help="its name (default: Demo); made if missing"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        if options["vehicles"] < 1 or options["interval"] <= 0:
            raise CommandError("--vehicles and --interval must be above zero")
        tokens = prepare(options["fleet"], options["vehicles"])
        if options["verbosity"]:
            self.stderr.write(f"{len(tokens)} vehicles drive to {options['url']}")
        tally = Tally()
        asyncio.run(self._run(tokens, tally, options))
        if options["verbosity"]:
            self.stdout.write(f"sent {tally.sent}, reconnects {tally.reconnects}")

    async def _run(
        self, tokens: list[str], tally: Tally, options: dict[str, Any]
    ) -> None:
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        tasks = [
            asyncio.create_task(_vehicle(number, token, tally, options))
            for number, token in enumerate(tokens)
        ]
        watch = asyncio.create_task(self._report(tally, options["verbosity"]))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), options["seconds"] or None)
        for task in (*tasks, watch):
            task.cancel()
        await asyncio.gather(*tasks, watch, return_exceptions=True)

    async def _report(self, tally: Tally, verbosity: int) -> None:
        while True:
            before = tally.sent
            await asyncio.sleep(REPORT_EVERY_S)
            rate = (tally.sent - before) / REPORT_EVERY_S
            if verbosity >= 2:
                self.stderr.write(
                    f"sent {tally.sent} ({rate:.0f}/s), reconnects {tally.reconnects}"
                )


async def _vehicle(
    number: int, token: str, tally: Tally, options: dict[str, Any]
) -> None:
    random = Random(f"{options['seed']}-{number}")  # noqa: S311 (a simulation)
    vehicle = Vehicle(random, options["speedup"])
    door = form_door if number % 3 == 2 else socket_door
    open_door = partial(door, options["url"], token)
    await drive(vehicle, open_door, tally, options["interval"])


@transaction.atomic
def prepare(fleet_name: str, vehicles: int) -> list[str]:
    """The fleet, its devices and a fresh token for each; run again, the same devices."""
    fleet, _created = Fleet.objects.get_or_create(name=fleet_name)
    names = [f"{NAMES[n % 3]} {n + 1:02d}" for n in range(vehicles)]
    devices = [
        Device.objects.get_or_create(fleet=fleet, name=name)[0] for name in names
    ]
    # Tokens are shown once, so a former run's cannot be used again.
    DeviceToken.objects.filter(device__in=devices).delete()
    return [create_token(device) for device in devices]
