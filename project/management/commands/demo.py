"""`manage.py demo`: the whole product on one machine, started and stopped as one.

Services → migrations and a user → shop, web, workers, beats, consumer, traffic →
addresses and a status line, until Ctrl-C or for `--seconds`.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import CalledProcessError
from threading import Event
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import (
    BaseCommand,
    CommandError,
    CommandParser,
    call_command,
)
from rich.console import Console

from project import embedded
from project.demo import figures, ready, screen
from project.demo import options as given
from project.demo.place import (
    DEFAULT_PORT,
    HOST,
    choose_port,
    kept_secret,
    only_one_demo,
)
from project.demo.processes import Program, Supervisor, manage, programs
from project.embedded.service import Service, free_port

USER = "admin"


class Command(BaseCommand):
    help = (
        "Run everything on this machine: services, web, workers, three beats, the "
        "consumer, a third-party shop and a simulated fleet. "
        "Example: manage.py demo --vehicles 120 --port 8080"
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--vehicles", type=int, default=60, help="how many drive (default 60)"
        )
        parser.add_argument(
            "--port",
            type=given.port,
            help=f"port of the web server (default {DEFAULT_PORT})",
        )
        parser.add_argument(
            "--seconds",
            type=given.seconds,
            help="stop by itself after so long, then report",
        )
        parser.add_argument(
            "--ready-file",
            type=given.new_file,
            help="write a JSON document here once all is up",
        )
        parser.add_argument(
            "--force", action="store_true", help="start although DEBUG is off"
        )
        parser.add_argument("--prepare", action="store_true", help="(internal) migrate")

    def handle(self, *_: Any, **options: Any) -> None:
        if options["prepare"]:
            prepare()
            return
        if not (
            settings.DEBUG or options["force"] or settings.EMBEDDED_SERVICES_FORCED
        ):
            raise CommandError(
                "The demo starts services and passwords made for development, and DEBUG "
                "is off. Use `make demo`, set DEBUG=true, or pass --force."
            )
        if not 1 <= options["vehicles"] <= 2000:
            raise CommandError("--vehicles takes 1 to 2000.", returncode=2)
        refuse_unreadable_settings()
        if options["ready_file"]:
            # A script that waits for it must not read that of an earlier start.
            options["ready_file"].unlink(missing_ok=True)
        stop = stop_on_signals()
        try:
            folder = settings.STATE_DIR / "services"
            with only_one_demo(), embedded.running(folder) as services:
                Demo(options, stop, services).run()
        except (embedded.ServiceFailed, ready.NotReady) as failure:
            raise CommandError(str(failure)) from failure


class Demo:
    """One start of everything; the services already answer."""

    def __init__(
        self, options: dict[str, Any], stop: Event, services: Sequence[Service]
    ) -> None:
        self.options = options
        self.stop = stop
        self.services = services
        self.log = Console(stderr=True)
        self.out = Console()
        self.port = choose_port(options["port"])
        if not options["port"] and self.port != DEFAULT_PORT:
            self.log.print(
                f"Port {DEFAULT_PORT} is taken: using {self.port} (--port chooses one).",
                highlight=False,
            )
        self.url = f"http://{HOST}:{self.port}"
        self.shop_port = free_port()
        self.run_folder = settings.STATE_DIR / "run"
        self.password = kept_secret("admin-password")

    def run(self) -> None:
        with self._files_of_this_run() as environment:
            logs = settings.STATE_DIR / "logs"
            supervisor = Supervisor(settings.BASE_DIR, logs, environment, self.services)
            try:
                self._start(supervisor)
                if not self.stop.is_set():
                    self._watch(supervisor)
                self._finish(supervisor)
            finally:
                self.log.print("Stopping …", highlight=False)
                supervisor.stop()
                self.log.print("Stopped.", highlight=False)

    @contextmanager
    def _files_of_this_run(self) -> Iterator[dict[str, str]]:
        """The children's environment; also left for `manage.py …` in other terminals."""
        shutil.rmtree(self.run_folder, ignore_errors=True)
        counters = self.run_folder / "prometheus"
        for folder in (self.run_folder, counters, settings.STATE_DIR / "logs"):
            embedded.make_private(folder)
        addresses = ("DATABASE_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS")
        environment = {name: os.environ[name] for name in addresses} | {
            "DEBUG": "true",
            "SECRET_KEY": kept_secret("secret-key"),
            "PROMETHEUS_MULTIPROC_DIR": str(counters),
        }
        lines = [f"{name}={value}\n" for name, value in environment.items()]
        ready.write_private(settings.DEMO_ENV_FILE, "".join(lines))
        try:
            yield (
                os.environ | environment | {"DJANGO_SUPERUSER_PASSWORD": self.password}
            )
        finally:
            shutil.rmtree(self.run_folder, ignore_errors=True)

    def _start(self, supervisor: Supervisor) -> None:
        self.log.print("Database: migrating …", highlight=False)
        try:
            migrate = Program("migrate", "migrate", manage("demo", "--prepare"))
            supervisor.run(migrate, timeout_s=120)
        except CalledProcessError as failure:
            raise CommandError(
                f"Migrating failed:\n{failure.stderr[-3000:]}"
            ) from failure
        for program in programs(
            host=HOST,
            port=self.port,
            shop_port=self.shop_port,
            vehicles=self.options["vehicles"],
        ):
            supervisor.start(program)
        self.log.print(
            f"Processes: {len(supervisor.running)} started, waiting until all answer …",
            highlight=False,
        )
        shop_url = f"http://{HOST}:{self.shop_port}"
        ready.wait_until_ready(supervisor, self.url, shop_url, self.stop.is_set)

    def _watch(self, supervisor: Supervisor) -> None:
        document = self._document(supervisor)
        screen.print_addresses(self.out, {k: str(v) for k, v in document.items()})
        if self.options["ready_file"]:
            ready.write_ready_file(self.options["ready_file"], document)
        began = time.monotonic()
        limit_s = self.options["seconds"] or float("inf")
        with screen.StatusLine(self.log) as line:
            while (passed := time.monotonic() - began) < limit_s:
                line.show(lambda: screen.status(figures.read(self.url), passed))
                self._report_the_dead(supervisor)
                if self.stop.wait(min(1.0, max(limit_s - passed, 0))):
                    return

    def _report_the_dead(self, supervisor: Supervisor) -> None:
        for program, code in supervisor.look().items():
            self.log.print(f"[red]{program.name} died with code {code}:[/]")
            self.log.print(supervisor.log_end(program), markup=False, highlight=False)

    def _finish(self, supervisor: Supervisor) -> None:
        """The report of a run that had an end; raises when something went wrong."""
        if self.options["seconds"] is None:
            return
        self._report_the_dead(supervisor)
        found = figures.read(self.url) or figures.Figures()
        died = {program.name: code for program, code in supervisor.died.items()}
        screen.print_report(self.out, found, died)
        if died:
            raise CommandError(f"Died: {', '.join(died)}.")
        if found.silent_paths and not self.stop.is_set():
            raise CommandError(f"Nothing happened on: {', '.join(found.silent_paths)}.")

    def _document(self, supervisor: Supervisor) -> dict[str, object]:
        websocket = self.url.replace("http", "ws", 1)
        return {
            "schema": "drover.demo/1",
            "map": f"{self.url}/",
            "admin": f"{self.url}/admin/",
            "phone": f"{self.url}/phone/",
            "metrics": f"{self.url}/metrics",
            "shop": f"http://{HOST}:{self.shop_port}/",
            "websocket": f"{websocket}/ws/map/",
            "device_websocket": f"{websocket}/ws/device/",
            "user": USER,
            "password": self.password,
            "database_url": os.environ["DATABASE_URL"],
            "redis_url": os.environ["REDIS_URL"],
            "kafka_bootstrap_servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
            "processes": [
                {"name": "demo", "role": "supervisor", "pid": os.getpid()},
                *(
                    {"name": program.name, "role": program.role, "pid": process.pid}
                    for program, process in supervisor.everything().items()
                ),
            ],
        }


def refuse_unreadable_settings() -> None:
    """Before anything starts; raises CommandError that names every bad variable."""
    problems = settings.ENVIRONMENT_PROBLEMS
    if problems:
        raise CommandError(
            "\n".join(
                f"{p.variable} is {p.value!r}: use {p.expected}." for p in problems
            )
        )


def prepare() -> None:
    """Migrate, and see that the demo's user can log in with the kept password."""
    call_command("migrate", interactive=False, verbosity=1)
    user, _ = get_user_model().objects.get_or_create(
        username=USER, defaults={"is_staff": True, "is_superuser": True}
    )
    password = os.environ["DJANGO_SUPERUSER_PASSWORD"]
    # An unchanged hash keeps the sessions of a browser that is still logged in.
    if not user.check_password(password):
        user.set_password(password)
        user.save()


def stop_on_signals() -> Event:
    """Set by the first Ctrl-C or SIGTERM; the second one ends at once."""
    stop = Event()

    def on_signal(_number: int, _frame: object) -> None:
        if stop.is_set():
            os._exit(130)  # The children's death signals end them.
        stop.set()

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    return stop
