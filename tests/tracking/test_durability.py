"""Regressions of the ecosystem, and real traces through the real door."""

import asyncio
import csv
from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async
from django.core.checks import run_checks

from tests.sample_data import sample
from tests.tracking.factories import make_device, make_token, make_user, session_cookie
from tests.tracking.sockets import Phone, Watcher
from tracking import live

pytestmark = pytest.mark.usefixtures("running_hub")


@sync_to_async
def one_device():
    device = make_device(name="Bus 4716")
    cookie = session_cookie(make_user(superuser=True))
    return device, make_token(device), cookie


@pytest.mark.journey
async def test_two_sockets_that_are_idle_for_twelve_seconds_stay_open():
    # redis-py 8 gave blocking reads a timeout of 5 s, which tore down idle sockets.
    _device, token, cookie = await one_device()
    phone, watcher = Phone(token), Watcher(cookie)
    await phone.open()
    await watcher.open()
    await asyncio.sleep(12)
    assert (await phone.tell(type="ping", id=1))["result"] == "accepted"
    await watcher.until(lambda: watcher.kind("event"), "start", 3)
    await phone.close()
    await watcher.close()


@pytest.mark.data
async def test_a_bus_of_liverpool_drives_over_the_map():
    device, token, cookie = await one_device()
    path = sample("gps/liverpool_bus/route14_outbound.csv")
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["trip_id"] == "1091"]
    phone, watcher = Phone(token), Watcher(cookie)
    await phone.open()
    await watcher.open([-3.1, 53.3, -2.8, 53.5])
    # The trip ends now; its own clock is half a year old.
    times = [datetime.fromisoformat(r["timestamp"]).replace(tzinfo=UTC) for r in rows]
    shift = datetime.now(UTC) - times[-1]
    for row, at in zip(rows, times, strict=True):
        place = {"lat": float(row["latitude"]), "lon": float(row["longitude"])}
        moment = (at + shift).isoformat()
        answer = await phone.tell(type="fix", id=row["id"], fixed_at=moment, **place)
        assert answer["result"] in {"accepted", "filtered:not_moved"}
    last = float(rows[-1]["latitude"])

    def has_arrived() -> bool:
        item = watcher.items.get(str(device.pk))
        return item is not None and abs(item["lat"] - last) < 0.0002

    await watcher.until(has_arrived, "last stop")
    await phone.close()
    await watcher.close()


@pytest.mark.django_db
def test_a_redis_without_an_append_only_file_is_refused():
    client = live.sync_redis()
    assert [m.id for m in run_checks(tags=["drover"]) if m.id == "tracking.E001"] == []
    client.config_set("appendonly", "no")
    try:
        ids = [message.id for message in run_checks(tags=["drover"])]
    finally:
        client.config_set("appendonly", "yes")
    assert "tracking.E001" in ids


@pytest.mark.django_db
def test_a_redis_out_of_reach_is_told_but_no_fault(settings):
    settings.REDIS_URLS = settings.REDIS_URLS | {"tracking": "redis://127.0.0.1:1"}
    found = [m for m in run_checks(tags=["drover"]) if m.id == "tracking.I001"]
    assert "REDIS_URL is not reachable" in found[0].msg
