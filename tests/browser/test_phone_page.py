"""The phone page in Chromium with an emulated location, before the real web process."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import WAIT_MS, Console, Van, Web
from tracking.models import Position

pytestmark = pytest.mark.timeout(180)

HOME = {"latitude": 47.3769, "longitude": 8.5417, "accuracy": 5}
STREET = {"latitude": 47.3789, "longitude": 8.5417, "accuracy": 5}


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A phone at home that allows its location."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        is_mobile=True,
        permissions=["geolocation"],
        geolocation=HOME,  # type: ignore[arg-type]
    )
    context.set_default_timeout(WAIT_MS)
    yield context
    context.close()


def count(page: Page, name: str, value: int) -> None:
    expect(page.locator(f"#{name}")).to_have_text(str(value))


def test_a_phone_tracks_filters_and_saves_its_last_position(
    web: Web,
    make_van: Callable[[str], Van],
    context: BrowserContext,
    browser_page: Page,
    console: Console,
) -> None:
    van = make_van("Ana's phone")
    browser_page.goto(f"{web.url}/phone/#token={van.token}")
    assert van.token not in browser_page.url
    expect(browser_page.locator("#device")).to_have_text("Ana's phone")
    browser_page.click("#start")
    count(browser_page, "sent", 1)
    context.set_geolocation(STREET)  # type: ignore[arg-type]
    count(browser_page, "sent", 2)
    context.set_geolocation(STREET | {"latitude": 47.37891})  # type: ignore[arg-type]
    count(browser_page, "filtered", 1)

    browser_page.click("#stop")
    expect(browser_page.locator("#heading")).to_have_text("Stopped")
    expect(browser_page.locator("#answer")).to_have_text("saved")
    saved = Position.objects.filter(device=van.device).latest("fixed_at")
    assert saved.latitude == pytest.approx(47.37891)
    van.device.refresh_from_db()
    assert van.device.active is False


def test_positions_of_an_outage_are_kept_and_sent_later(
    web: Web,
    make_van: Callable[[str], Van],
    context: BrowserContext,
    browser_page: Page,
    console: Console,
) -> None:
    console.expected += ["WebSocket", "ERR_CONNECTION_REFUSED"]
    van = make_van("Ana's phone")
    browser_page.goto(f"{web.url}/phone/#token={van.token}")
    browser_page.click("#start:enabled")
    count(browser_page, "sent", 1)
    web.stop()
    expect(browser_page.locator("#badge [data-text]")).to_contain_text("Reconnecting")
    context.set_geolocation(STREET)  # type: ignore[arg-type]
    count(browser_page, "buffered", 1)
    web.start()
    count(browser_page, "sent", 2)
    count(browser_page, "buffered", 0)


def test_an_unknown_token_is_named(
    web: Web, browser_page: Page, console: Console
) -> None:
    browser_page.goto(f"{web.url}/phone/")
    browser_page.fill("#token", "dr_not-a-token")
    browser_page.click("text=Use this token")
    expect(browser_page.locator("#badge [data-text]")).to_have_text("Not accepted")
    expect(browser_page.locator("#problem")).to_contain_text("does not accept")


def test_what_waits_under_one_token_is_never_sent_under_another(
    web: Web,
    make_van: Callable[[str], Van],
    context: BrowserContext,
    browser_page: Page,
    console: Console,
) -> None:
    van = make_van("Ana's phone")
    browser_page.goto(f"{web.url}/phone/#token=dr_not-a-token")
    browser_page.click("#start:enabled")
    count(browser_page, "buffered", 1)
    browser_page.click("#forget")
    browser_page.fill("#token", van.token)
    browser_page.click("text=Use this token")
    expect(browser_page.locator("#device")).to_have_text("Ana's phone")
    for name in ("taken", "sent", "buffered"):
        count(browser_page, name, 0)
    browser_page.click("#start:enabled")
    count(browser_page, "sent", 1)
    # A browser may read the place again at once: that is taken too, and not moved.
    phone = browser_page.evaluate("drover.phone()")
    assert phone["taken"] == phone["sent"] + phone["filtered"]

    browser_page.goto(f"{web.url}/phone/#token=dr_not-a-token")
    expect(browser_page.locator("#badge [data-text]")).to_have_text("Not accepted")
    count(browser_page, "buffered", 1)
