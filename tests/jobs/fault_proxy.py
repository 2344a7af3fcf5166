"""A TCP proxy before the suite's Redis that can lose replies or cut every connection."""

import select
import socket
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit


def moved_to(url: str, port: int) -> str:
    """The same Redis address on another local port, credentials kept."""
    parts = urlsplit(url)
    credentials = parts.netloc.rpartition("@")[0]
    netloc = f"{credentials}@127.0.0.1:{port}" if credentials else f"127.0.0.1:{port}"
    return urlunsplit(parts._replace(netloc=netloc))


class FaultProxy:
    """`with FaultProxy(url) as proxy:` then use `proxy.url` instead."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.1)
        self.url = moved_to(url, self._server.getsockname()[1])
        self.replies_to_lose = 0
        self.lost = 0
        self._is_cut = threading.Event()
        self._is_closed = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> "FaultProxy":
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed.set()
        for thread in list(self._threads):
            thread.join(timeout=2)
        self._server.close()

    def cut(self) -> None:
        """Close what is open and every new connection, until `heal`."""
        self._is_cut.set()

    def heal(self) -> None:
        self._is_cut.clear()

    @property
    def _is_down(self) -> bool:
        return self._is_cut.is_set() or self._is_closed.is_set()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            with suppress(TimeoutError):
                near, _address = self._server.accept()
                thread = threading.Thread(target=self._serve, args=(near,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._target) as far, suppress(OSError):
            is_eval = False
            while not self._is_down:
                for source in select.select([near, far], [], [], 0.02)[0]:
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is near:
                        is_eval = b"EVAL" in data
                        far.sendall(data)
                    elif is_eval and self.lost < self.replies_to_lose:
                        self.lost += 1
                        return
                    else:
                        near.sendall(data)
