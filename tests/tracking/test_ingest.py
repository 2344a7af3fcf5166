"""The one door: live keys, buffer and outcomes, on a real Redis and PostgreSQL."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from tests.tracking.factories import make_device, make_fix
from tracking import history, ingest, keys, live
from tracking.ingest import Unavailable, accept_sync
from tracking.models import Device, Position

pytestmark = pytest.mark.django_db


@pytest.fixture
def device(db) -> Device:
    return make_device()


def texts(device, *fixes) -> list[str]:
    return [outcome.text for outcome in accept_sync(device, fixes)]


def live_value(device: Device) -> str | None:
    value = live.sync_redis().get(keys.live(device.fleet_id, device.pk))
    return None if value is None else str(value)


def buffered(device: Device) -> int:
    return int(live.sync_redis().xlen(keys.buffer(device.fleet_id)))


def test_every_live_key_dies_after_two_minutes_without_a_word(device):
    texts(device, make_fix())
    client = live.sync_redis()
    assert 110 < client.ttl(keys.live(device.fleet_id, device.pk)) <= 120
    deadline = client.zscore(keys.active(device.fleet_id), str(device.pk))
    assert deadline is not None
    left_s = deadline / 1000 - timezone.now().timestamp()
    assert 110 < left_s <= 121


def test_keys_of_a_fleet_share_its_hash_tag(device):
    texts(device, make_fix())
    names = live.sync_redis().keys("*")
    assert names
    assert all(f"{{fleet:{device.fleet_id}}}" in name for name in names)


def test_the_same_fix_again_is_one_row_and_a_success(device):
    assert texts(device, make_fix()) == ["accepted"]
    assert texts(device, *[make_fix()] * 3) == ["duplicate"] * 3
    assert buffered(device) == 1


def test_an_older_fix_never_moves_the_marker_but_is_history(device):
    assert texts(device, make_fix(-10)) == ["accepted"]
    assert texts(device, make_fix(-2, steps=5)) == ["accepted"]
    shown = live_value(device)
    assert texts(device, make_fix(-5, steps=9)) == ["late"]
    assert live_value(device) == shown
    history.flush(device.fleet_id)
    rows = Position.objects.filter(device=device).order_by("fixed_at")
    assert [row.reason for row in rows] == ["", "late", ""]


def test_a_batch_in_any_order_shows_its_newest_fix(device):
    fixes = [make_fix(-seconds, steps=seconds) for seconds in range(1, 30)]
    assert set(texts(device, *fixes)) == {"accepted"}
    assert f" {make_fix(-1).fixed_at_ms} " in str(live_value(device))


def test_a_batch_from_a_clock_that_is_ahead_shows_its_newest_fix(device):
    fixes = [make_fix(600 + n, steps=n * 2) for n in range(5)]
    assert texts(device, *fixes) == ["accepted"] * 5
    assert f'"lat":{round(fixes[-1].latitude, 6)}' in str(live_value(device))
    # And once the clock is right again, the device is heard at once.
    assert texts(device, make_fix(2, steps=99)) == ["accepted"]


def test_of_fixes_at_the_same_time_the_most_accurate_is_shown_in_any_order(device):
    radii = (500.0, None, 8.0, 60.0)
    fixes = [make_fix(0, steps=n * 50, accuracy_m=m) for n, m in enumerate(radii)]
    for number, order in enumerate(permutations(fixes)):
        moved = [replace(f, fixed_at_ms=f.fixed_at_ms - 9000 + number) for f in order]
        texts(device, *moved)
        assert f'"lat":{round(fixes[2].latitude, 6)}' in str(live_value(device))


def test_what_another_process_wrote_is_seen_before_judging(device):
    texts(device, make_fix(-10))
    mine = dict(ingest._REMEMBERED)
    assert texts(device, make_fix(-1, steps=9)) == ["accepted"]
    ingest._REMEMBERED.clear()
    ingest._REMEMBERED.update(mine)
    assert texts(device, make_fix(-5, steps=5)) == ["late"]


def test_no_movement_keeps_a_device_alive_without_a_publication(device):
    texts(device, make_fix(-10))
    listener = live.sync_redis().pubsub(ignore_subscribe_messages=True)
    listener.subscribe(*keys.channels(device.fleet_id))
    client = live.sync_redis()
    client.pexpire(keys.live(device.fleet_id, device.pk), 5000)
    assert texts(device, make_fix(-1, steps=0.5)) == ["filtered:not_moved"]
    assert client.ttl(keys.live(device.fleet_id, device.pk)) > 60
    messages = [listener.get_message(timeout=0.05) for _ in range(10)]
    listener.close()
    assert [message for message in messages if message] == []


def test_a_full_buffer_says_so_while_live_goes_on_and_loses_nothing(device):
    texts(device, make_fix(-20))
    with override_settings(TRACKING_BUFFER_LIMIT=1):
        with pytest.raises(Unavailable):
            accept_sync(device, [make_fix(-10, steps=5)])
        assert f" {make_fix(-10).fixed_at_ms} " in str(live_value(device))
    # The phone kept it and sends it again once there is room.
    assert texts(device, make_fix(-10, steps=5)) == ["duplicate"]
    history.flush(device.fleet_id)
    assert Position.objects.count() == 2


def test_without_redis_the_sender_is_told_to_keep_it(device, settings):
    settings.REDIS_URLS = settings.REDIS_URLS | {"tracking": "redis://127.0.0.1:1"}
    live.sync_redis.cache_clear()
    with pytest.raises(Unavailable):
        accept_sync(device, [make_fix()])


def test_a_flush_writes_each_fix_once_and_the_device_s_last_position(device):
    texts(device, make_fix(-60), make_fix(-30, steps=3, battery_pct=40.0))
    texts(device, make_fix(0, latitude=0.0, longitude=0.0))
    assert history.flush(device.fleet_id) == 3
    assert history.flush(device.fleet_id) == 0
    device.refresh_from_db()
    assert device.active
    assert device.last_latitude == make_fix(steps=3).latitude
    assert device.last_battery_pct == 40
    at = datetime.fromtimestamp(make_fix(-30).fixed_at_ms / 1000, tz=UTC)
    assert abs(device.last_fixed_at - at) < timedelta(seconds=2)
    assert Position.objects.filter(reason="zero").count() == 1


def test_written_twice_is_stored_once(device):
    texts(device, make_fix(), make_fix(5, steps=9))
    stream = keys.buffer(device.fleet_id)
    entries: Any = live.sync_redis().xrange(stream)
    assert history.flush(device.fleet_id) == 2
    for _entry_id, fields in entries:
        live.sync_redis().xadd(stream, fields)
    assert history.flush(device.fleet_id) == 0
    assert Position.objects.count() == 2


def test_a_record_nobody_can_read_blocks_nothing(device, caplog):
    live.sync_redis().xadd(keys.buffer(device.fleet_id), {"r": "not json"})
    texts(device, make_fix())
    assert history.flush(device.fleet_id) == 1
    assert buffered(device) == 0


def test_what_a_deleted_device_left_behind_is_dropped(device):
    texts(device, make_fix())
    fleet_id = device.fleet_id
    device.delete()
    assert history.flush(fleet_id) == 0


def test_a_silent_device_is_lost_once_and_saved(device, settings):
    settings.TRACKING_LIVE_TTL_S = 0.05
    texts(device, make_fix())
    deadline = timezone.now() + timedelta(seconds=5)
    lost: list[int] = []
    while not lost and timezone.now() < deadline:
        lost = live.expire(device.fleet_id)
    assert lost == [device.pk]
    assert live.expire(device.fleet_id) == []
    assert history.settle_lost(device.fleet_id) == 1
    device.refresh_from_db()
    assert (device.state, Position.objects.count()) == ("lost", 1)


def test_a_loss_announced_while_the_database_was_away_is_settled_later(
    device, settings
):
    settings.TRACKING_LIVE_TTL_S = 0.05
    silent = make_device(fleet=device.fleet)
    # It has said that it starts, and never again anything.
    history.mark_started(silent.pk, ingest.now_ms() - 1000)
    texts(device, make_fix())
    history.flush(device.fleet_id)
    deadline = timezone.now() + timedelta(seconds=5)
    while not live.expire(device.fleet_id):
        assert timezone.now() < deadline
    settings.TRACKING_LIVE_TTL_S = 60
    heard = make_device(fleet=device.fleet)
    texts(heard, make_fix())
    settings.TRACKING_LIVE_TTL_S = 0.05
    assert history.settle_lost(device.fleet_id) == 2
    assert {d.state for d in (device, silent, heard) if not d.refresh_from_db()} == {
        "lost",
        "never",
        "active",
    }
