"""The one HTTP client of imports: retries, Retry-After, size caps, ETag.

Before it: a reader that wants an address. After it: the third party's server.
"""

import email.utils
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any
from urllib.parse import urlsplit

import httpx2
from prometheus_client import Counter

logger = logging.getLogger(__name__)

REQUESTS = Counter(
    "drover_products_http_requests_total",
    "Requests to third-party product sources, by answer.",
    ["status"],
)

USER_AGENT = "Drover/0.1 (product import)"
TIMEOUT = httpx2.Timeout(connect=5, read=30, write=10, pool=5)
ATTEMPTS = 5
MAX_WAIT_S = 120.0
MAX_BYTES = 512 * 1024 * 1024
MAX_REDIRECTS = 5
# A server that sends a byte now and then would keep the job to itself for ever.
MAX_ANSWER_S = 900.0
RETRIED = frozenset({408, 429, 500, 502, 503, 504})


class SourceFailed(Exception):
    """The source cannot be read now; the run fails and says this text."""


class SourceDeferred(SourceFailed):
    """The source asks for more patience than a run has; end it, try at the next."""


@dataclass
class Traffic:
    """What one run cost the third party."""

    requests: int = 0
    retries: int = 0
    bytes_read: int = 0


@dataclass(frozen=True)
class Fetched:
    """A whole answer, spooled: `body` is at its start and closes with the client."""

    body: IO[bytes]
    content_type: str
    etag: str


@dataclass
class HttpClient:
    """One per run. `secret` goes out as `secret_header`, to the source's host only.

    `pause` waits so many seconds and may raise, when the run lost its lease; it is also
    asked, with 0, at each piece of an answer.
    """

    origin: str
    secret_header: str = ""
    secret: str = ""
    pause: Callable[[float], None] = time.sleep
    max_bytes: int = MAX_BYTES
    traffic: Traffic = field(default_factory=Traffic)
    _client: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        # Identity: a cut gzip body can look like a whole short one.
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
        self._client = httpx2.Client(
            timeout=TIMEOUT, headers=headers, follow_redirects=False, trust_env=False
        )

    def __enter__(self) -> "HttpClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @contextmanager
    def fetch(
        self, url: str, params: dict[str, Any] | None = None, etag: str = ""
    ) -> Iterator[Fetched | None]:
        """The answer to a GET, None for "not modified"; raises SourceFailed."""
        try:
            address = str(httpx2.URL(url).copy_merge_params(params or {}))
        except (httpx2.InvalidURL, ValueError) as error:
            raise SourceFailed(
                f"{masked(url)} is no usable address: {error}"
            ) from error
        with tempfile.SpooledTemporaryFile(max_size=1024 * 1024) as body:
            for attempt in range(1, ATTEMPTS + 1):
                last = attempt == ATTEMPTS
                response, wait_s = self._attempt(address, etag, body, last=last)
                if response:
                    break
                self.traffic.retries += 1
                self.pause(backoff_s(attempt) if wait_s is None else wait_s)
            body.seek(0)
            if response.status_code == 304 and not etag:
                raise SourceFailed("Answered 304 to a request without a condition.")
            yield (
                None
                if response.status_code == 304
                else Fetched(
                    body,
                    response.headers.get("content-type", ""),
                    response.headers.get("etag", ""),
                )
            )

    def _attempt(
        self, url: str, etag: str, body: IO[bytes], *, last: bool
    ) -> tuple[Any, float | None]:
        """(response, None) when done, (None, seconds or None) to try again."""
        try:
            response = self._get(url, etag, body)
        except httpx2.RequestError as error:
            REQUESTS.labels("error").inc()
            if last:
                name = type(error).__name__
                raise SourceFailed(
                    f"{masked(url)} does not answer ({name})."
                ) from error
            return None, None
        except (httpx2.InvalidURL, ValueError) as error:
            raise SourceFailed(f"{masked(url)} is no usable address.") from error
        if response.status_code not in RETRIED:
            return _accepted(response, url), None
        wait_s = retry_after_s(response.headers.get("retry-after"))
        problem = f"{masked(url)} answered {response.status_code}"
        if wait_s is not None and wait_s > MAX_WAIT_S:
            raise SourceDeferred(f"{problem} and asks to wait {wait_s:.0f} s.")
        if last:
            raise SourceFailed(f"{problem}, {ATTEMPTS} times.")
        logger.info(
            "source asked for a retry",
            extra={"action": "http_retried", "status": response.status_code},
        )
        return None, wait_s

    def _get(self, url: str, etag: str, body: IO[bytes]) -> httpx2.Response:
        """One GET with its redirects; a 200 is written to `body`."""
        for _ in range(MAX_REDIRECTS + 1):
            self.traffic.requests += 1
            with self._client.stream("GET", url, headers=self._headers(url, etag)) as r:
                REQUESTS.labels(str(r.status_code)).inc()
                if r.is_redirect and r.headers.get("location"):
                    url = str(httpx2.URL(url).join(r.headers["location"]))
                    self._check_scheme(url)
                    continue
                if r.status_code == 200:
                    self._spool(r, body)
                return r
        raise SourceFailed(f"{masked(url)}: more than {MAX_REDIRECTS} redirects.")

    def _headers(self, url: str, etag: str) -> dict[str, str]:
        headers = {"If-None-Match": etag} if etag.isascii() and etag else {}
        if self.secret and _origin(url) == _origin(self.origin):
            headers[self.secret_header or "Authorization"] = self.secret
        return headers

    @staticmethod
    def _check_scheme(url: str) -> None:
        if urlsplit(url).scheme not in {"http", "https"}:
            raise SourceFailed(f"Redirect to {masked(url)} refused: not http.")

    def _spool(self, response: httpx2.Response, body: IO[bytes]) -> None:
        body.seek(0)
        body.truncate()
        size, ends_at = 0, time.monotonic() + MAX_ANSWER_S
        # As it comes: a fixed size would wait for a slow server to fill it.
        for chunk in response.iter_bytes():
            self.pause(0)
            size += len(chunk)
            if size > self.max_bytes:
                raise SourceFailed(f"The answer is larger than {self.max_bytes} bytes.")
            if time.monotonic() > ends_at:
                raise SourceFailed(f"The answer took longer than {MAX_ANSWER_S:.0f} s.")
            body.write(chunk)
        self.traffic.bytes_read += size


def _accepted(response: httpx2.Response, url: str) -> httpx2.Response:
    if response.status_code in {200, 304}:
        return response
    reason = f"{masked(url)} answered {response.status_code}."
    if response.status_code in {401, 403}:
        reason += " Check the source's secret."
    raise SourceFailed(reason)


def retry_after_s(header: str | None) -> float | None:
    """Seconds of "2", "2.0" or an HTTP date; None for nothing or nonsense."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_until(header)
    return max(0.0, seconds) if seconds == seconds else None  # noqa: PLR0124 (NaN)


def _seconds_until(date: str) -> float:
    """Seconds until an HTTP date, NaN if it is none."""
    try:
        moment = email.utils.parsedate_to_datetime(date)
    except (ValueError, TypeError):
        return float("nan")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime.now(UTC)).total_seconds()


def backoff_s(attempt: int) -> float:
    """Full jitter: anything up to 1, 2, 4 … 60 s."""
    return random.uniform(0, min(60.0, 2.0 ** (attempt - 1)))  # noqa: S311


def masked(url: str) -> str:
    """The address as logs and pages may show it: no user, password, query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "The address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port
