"""The live map in Chromium, before the real web process."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, Van, Web

MakeVan = Callable[[str], Van]
OpenMap = Callable[..., Page]
pytestmark = pytest.mark.timeout(180)
AGE_OF_A_LIVE_FIX = re.compile(r"^(now|[1-5]?\d s ago)$")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def position(page: Page, van: Van) -> Any:
    return page.evaluate("id => drover.positions()[id]", str(van.device.pk))


def wait_until_at(page: Page, van: Van, lat: float) -> None:
    page.wait_for_function(
        "([id, lat]) => Math.abs((drover.positions()[id]?.lat ?? 99) - lat) < 1e-5",
        arg=[str(van.device.pk), lat],
    )


def row(page: Page, name: str) -> Any:
    return page.locator(".row", has_text=name)


def test_a_marker_moves_when_its_device_moves(
    make_van: MakeVan, open_map: OpenMap
) -> None:
    van, parked = make_van("Van 1"), make_van("Van 2")
    start = now_ms() - 5000
    van.drive(47.3769, 8.5417, start, speed_mps=14, course_deg=45)
    parked.drive(47.40, 8.60, start)
    live_map = open_map()
    wait_until_at(live_map, van, 47.3769)
    wait_until_at(live_map, parked, 47.40)

    assert van.drive(47.3869, 8.5517, now_ms(), speed_mps=14) == "accepted"
    expect(row(live_map, "Van 1")).to_contain_text("50 km/h")
    wait_until_at(live_map, van, 47.3869)
    assert position(live_map, parked)["lat"] == pytest.approx(47.40)


def test_the_list_finds_and_shows_a_device(
    make_van: MakeVan, open_map: OpenMap
) -> None:
    for number, name in enumerate(("Ambulance", "Bus 7", "Bus 12")):
        make_van(name).drive(48.0 + number, 11.0, now_ms(), battery_pct=81)
    live_map = open_map()
    expect(live_map.locator("li.device:visible")).to_have_count(3)
    live_map.keyboard.press("/")
    live_map.keyboard.type("bus")
    expect(live_map.locator("li.device:visible .name")).to_have_text(
        ["Bus 7", "Bus 12"]
    )

    row(live_map, "Bus 12").click()
    card = live_map.locator("#card")
    expect(card.locator("h2")).to_have_text("Bus 12")
    expect(card).to_contain_text("81 %")
    live_map.keyboard.press("Escape")
    expect(card).to_be_hidden()


def test_the_badge_tells_an_outage_and_the_map_recovers(
    web: Web, make_van: MakeVan, open_map: OpenMap, console: Console
) -> None:
    console.expected += ["WebSocket", "ERR_CONNECTION_REFUSED"]
    van = make_van("Van 1")
    van.drive(47.3769, 8.5417, now_ms() - 5000)
    live_map = open_map()
    wait_until_at(live_map, van, 47.3769)
    badge = live_map.locator("#badge [data-text]")

    web.stop()
    expect(badge).to_have_text(re.compile("Reconnecting"))
    web.start()
    van.drive(47.3969, 8.5617, now_ms())
    expect(badge).to_have_text("Live")
    wait_until_at(live_map, van, 47.3969)
    assert len(live_map.evaluate("drover.positions()")) == 1


def test_an_empty_map_says_what_to_do(open_map: OpenMap) -> None:
    live_map = open_map(by_form=True)
    expect(live_map.locator("[data-list=empty]")).to_contain_text("No devices yet")
    expect(live_map.get_by_text("Add a device")).to_be_visible()


def test_a_map_whose_session_has_ended_leads_to_the_login(
    web: Web, open_map: OpenMap
) -> None:
    live_map = open_map()
    other_tab = live_map.context.new_page()
    other_tab.goto(f"{web.url}/admin/")
    other_tab.get_by_role("button", name="Log out").click()
    expect(live_map.locator("#badge [data-text]")).to_have_text("Signed out")
    live_map.get_by_text("Sign in again").click()
    expect(live_map.locator("input[name=username]")).to_be_visible()


def test_without_webgl_the_list_goes_on(
    make_van: MakeVan, open_map: OpenMap, browser_page: Page, console: Console
) -> None:
    console.expected += ["WebGL", "No map"]
    browser_page.add_init_script(
        "const real = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...more) {"
        " return kind.startsWith('webgl') ? null : real.call(this, kind, ...more); };"
    )
    van = make_van("Van 1")
    van.drive(47.3769, 8.5417, now_ms() - 5000)
    page = open_map(drawn=False)
    expect(page.get_by_text("This browser cannot draw the map")).to_be_visible()
    expect(row(page, "Van 1")).to_be_visible()
    van.drive(47.3869, 8.5517, now_ms(), speed_mps=14)
    expect(row(page, "Van 1")).to_contain_text("50 km/h")
    # "now" lasts 3 s, less than a busy machine may take to look.
    expect(row(page, "Van 1").locator(".age")).to_have_text(AGE_OF_A_LIVE_FIX)
