"""The demo's child processes: started together, watched, ended in order.

Before it: `manage.py demo` knows the services' addresses. After it: `figures`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from project.embedded.service import Service, die_with_parent

# Ctrl-C must end everything within 10 s: 6 s for the children, 3 s for the services.
STOP_TIMEOUT_S = 6.0


@dataclass(frozen=True)
class Program:
    """One line of the demo's process table."""

    name: str
    role: str
    command: tuple[str, ...]
    #: 0 ends first: what sends traffic, before what serves it, before the workers.
    stop_order: int = 1


def manage(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "manage.py", *arguments)


def celery(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "celery", "-A", "project", *arguments)


def programs(
    *, host: str, port: int, shop_port: int, vehicles: int
) -> tuple[Program, ...]:
    """Web, two workers, three beats, the consumer, and what makes the traffic."""
    web = (
        *(sys.executable, "-m", "uvicorn", "project.asgi:application"),
        *("--host", host, "--port", str(port), "--lifespan", "off"),
        *("--ws", "websockets-sansio", "--ws-per-message-deflate", "false"),
        *("--ws-max-size", "131072"),
        *("--no-access-log", "--log-level", "warning"),
        *("--timeout-graceful-shutdown", "3"),
    )
    url = f"http://{host}:{port}"
    fleet = manage("simulate_fleet", f"--vehicles={vehicles}", f"--url={url}")
    shop = manage("demo_shop", f"--port={shop_port}", "--register")
    return (
        Program("shop", "third-party shop", shop, 2),
        Program("web", "web", web),
        *(Program(f"worker-{n}", "worker", _worker(n), 2) for n in (1, 2)),
        *(
            Program(f"beat-{n}", "beat", celery("beat", "--pidfile="), 0)
            for n in (1, 2, 3)
        ),
        Program("consumer", "consumer", manage("consume")),
        Program("events", "event producer", manage("demo_events", "--rate=5"), 0),
        Program("fleet", "simulated fleet", fleet, 0),
    )


def _worker(number: int) -> tuple[str, ...]:
    queues = "jobs,streaming,default"
    # No gossip and mingle: workers need not know each other, and start faster.
    return celery(
        *("worker", f"--queues={queues}", "--concurrency=2"),
        *(f"--hostname=worker{number}@%h", "--without-gossip", "--without-mingle"),
    )


class Supervisor:
    """Starts programs with one environment; every output goes to `logs/<name>.log`."""

    def __init__(
        self,
        folder: Path,
        logs: Path,
        environment: Mapping[str, str],
        services: Sequence[Service] = (),
    ) -> None:
        """`services` are watched too; whoever started them ends them."""
        self.folder = folder
        self.logs = logs
        self.environment = dict(environment)
        self.running: dict[Program, subprocess.Popen[bytes]] = {}
        self.died: dict[Program, int] = {}
        self.services = {Program(s.name, "service", ()): s for s in services}

    def start(self, program: Program) -> None:
        with self._log_file(program).open("wb") as log:
            self.running[program] = subprocess.Popen(  # noqa: S603
                program.command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own group: Ctrl-C must reach it only when its turn has come.
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509
            )

    def run(self, program: Program, *, timeout_s: float) -> str:
        """Run to the end. Returns its output; raises CalledProcessError."""
        result = subprocess.run(  # noqa: S603
            program.command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        return result.stdout

    def look(self) -> dict[Program, int]:
        """The programs that ended by themselves since the last look, by exit code."""
        ended = {
            program: code
            for program, process in self.everything().items()
            if program not in self.died and (code := process.poll()) is not None
        }
        for program in ended:
            self.running.pop(program, None)
        self.died |= ended
        return ended

    def everything(self) -> dict[Program, subprocess.Popen[bytes]]:
        """The programs, and the services they need as far as the demo started those."""
        services = {
            program: service.process
            for program, service in self.services.items()
            if service.process is not None
        }
        return services | self.running

    def log_end(self, program: Program, lines: int = 12) -> str:
        text = self._log_file(program).read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """End all in order; kill the groups of those that take longer than 6 s."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for order in sorted({program.stop_order for program in self.running}):
            turn = [p for p in self.running if p.stop_order == order]
            for program in turn:
                self.running[program].send_signal(signal.SIGTERM)
            # Those who send traffic get a moment of their own; the rest share the end.
            last = order == max(program.stop_order for program in self.running)
            self._wait(turn, deadline if last else min(deadline, time.monotonic() + 1))
        self._wait(list(self.running), deadline)
        for process in self.running.values():
            _kill_group(process)
        self.running.clear()

    def _wait(self, turn: Sequence[Program], deadline: float) -> None:
        while any(self.running[p].poll() is None for p in turn):
            if time.monotonic() >= deadline:
                return
            time.sleep(0.05)

    def _log_file(self, program: Program) -> Path:
        if service := self.services.get(program):
            return service.log_file
        return self.logs / f"{program.name}.log"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of the process and of its own children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait(STOP_TIMEOUT_S)
