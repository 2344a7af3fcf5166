"""A real browser before the real web process, with real PostgreSQL and Valkey behind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.contrib.auth import get_user_model
from django.db import connections
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    expect,
    sync_playwright,
)

from project.embedded.service import free_port
from tests.browser import chromium
from tests.processes import Processes
from tests.tracking.factories import session_cookie
from tracking import auth
from tracking.models import Device, Fleet

USER, PASSWORD = "dispatcher", "correct horse"
WAIT_MS = 30_000
expect.set_options(timeout=WAIT_MS)


@dataclass(frozen=True)
class Web:
    """The web process under test; `start` and `stop` make outages."""

    url: str
    start: Callable[[], None]
    stop: Callable[[], None]


@pytest.fixture(scope="module")
def site(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Web]:
    """One web process for the tests of a module: what they make, they make anew."""
    processes = Processes(tmp_path_factory.mktemp("web"))
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx2.get(f"{url}/healthz", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False

    def start() -> None:
        if "web" not in processes.all:
            processes.web(port)
        processes.wait_for(answers, timeout=60, what="the web process answers")

    def stop() -> None:
        processes.stop("web")

    yield Web(url, start, stop)
    processes.stop_all()


@pytest.fixture
def web(site: Web, transactional_db: None) -> Web:
    """It runs, whatever the test before has done to it, and knows one superuser."""
    get_user_model().objects.create_superuser(USER, password=PASSWORD)
    site.start()
    return site


@pytest.fixture
def browser(web: Web, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """After `web`, so that it is gone before the database is emptied."""
    # Playwright's loop runs in this thread; Django would take that for async code.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(playwright), args=chromium.ARGUMENTS
        )
        yield browser
        browser.close()
        # Connections of code under a running loop are others than the suite's own.
        connections.close_all()


class Console:
    """What the page complained about; `expected` words are no complaint."""

    def __init__(self, page: Page) -> None:
        # The admin's login page has no icon.
        self.expected: list[str] = ["favicon.ico"]
        self._lines: list[str] = []
        page.on("console", lambda m: self._hear(m.type, f"{m.text} {m.location}"))
        page.on("pageerror", lambda error: self._hear("error", str(error)))

    def _hear(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self._lines.append(text)

    @property
    def complaints(self) -> list[str]:
        return [t for t in self._lines if not any(word in t for word in self.expected)]


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1200, "height": 760})
    context.set_default_timeout(WAIT_MS)
    yield context
    context.close()


@pytest.fixture
def browser_page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def console(browser_page: Page) -> Iterator[Console]:
    """Every test that asks for it ends with a quiet console."""
    console = Console(browser_page)
    yield console
    assert not console.complaints


@pytest.fixture
def open_map(web: Web, browser_page: Page, console: Console) -> Callable[..., Page]:
    """Returns the page once it is live (and `drawn`); `by_form` signs in by hand."""

    def sign_in(*, drawn: bool = True, by_form: bool = False) -> Page:
        if not by_form:
            name, _, value = session_cookie(get_user_model().objects.get()).partition(
                "="
            )
            browser_page.context.add_cookies(
                [{"name": name, "value": value, "url": web.url}]
            )
        browser_page.goto(web.url)
        if by_form:
            browser_page.fill("input[name=username]", USER)
            browser_page.fill("input[name=password]", PASSWORD)
            browser_page.click("input[type=submit]")
        if drawn:
            browser_page.wait_for_selector("#map[data-ready]", state="attached")
        expect(browser_page.locator("#badge [data-text]")).to_have_text("Live")
        return browser_page

    return sign_in


@dataclass(frozen=True)
class Van:
    """A device with a token, driven through the HTTP door."""

    device: Device
    token: str
    url: str

    def drive(self, lat: float, lon: float, fixed_at_ms: int, **more: Any) -> str:
        fix = {"lat": lat, "lon": lon, "fixed_at": fixed_at_ms} | more
        answer = httpx2.post(
            f"{self.url}/api/fixes/",
            json={"fixes": [fix]},
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=20,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["results"][0])


@pytest.fixture
def make_van(web: Web) -> Callable[[str], Van]:
    def make(name: str, fleet: str = "North") -> Van:
        owner, _ = Fleet.objects.get_or_create(name=fleet)
        device = Device.objects.create(name=name, fleet=owner)
        return Van(device, auth.create_token(device), web.url)

    return make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents and item.path.name != "test_modules.py":
            item.add_marker(pytest.mark.browser)
