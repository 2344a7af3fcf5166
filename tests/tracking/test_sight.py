"""Who may look and who may send: origins, logins, grants, tokens."""

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from tests.tracking.factories import (
    make_device,
    make_fix,
    make_token,
    make_user,
    session_cookie,
)
from tests.tracking.sockets import Phone, Watcher, as_message
from tracking import ingest
from tracking.models import DeviceToken, Grant

pytestmark = pytest.mark.usefixtures("running_hub")

cookie_of = sync_to_async(session_cookie)
user_made = sync_to_async(make_user)
device_made = sync_to_async(make_device)
token_made = sync_to_async(make_token)


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param(b"https://evil.example", id="another site"),
        pytest.param(b"http://testserver.evil.example", id="look-alike"),
        pytest.param(b"http://eviltestserver", id="suffix"),
        pytest.param(b"null", id="null"),
        pytest.param(b"http://evil@testserver", id="name and host"),
        pytest.param(b"http://[", id="no address at all"),
        pytest.param(None, id="missing"),
    ],
)
async def test_a_page_of_another_origin_is_refused_before_the_handshake(origin):
    watcher = Watcher(await cookie_of(await user_made()), origin)
    connected, _code = await watcher.socket.connect()
    assert not connected


@pytest.mark.parametrize("cookie", ["", "sessionid=forged"])
async def test_nobody_is_closed_with_4401(cookie):
    watcher = Watcher(cookie)
    connected, _ = await watcher.socket.connect()
    assert connected
    assert await watcher.socket.receive_output() == {
        "type": "websocket.close",
        "code": 4401,
    }


async def test_without_a_grant_nothing_is_seen_not_even_by_counts():
    device = await device_made()
    await ingest.accept(device, [make_fix(-9)])
    watcher = Watcher(await cookie_of(await user_made()))
    await watcher.open()
    await watcher.until(lambda: watcher.kind("roster"), "roster")
    assert watcher.items == {}
    assert watcher.kind("roster")[0]["items"] == []
    await ingest.stop(device, make_fix())
    assert await watcher.socket.receive_nothing(0.3)
    await watcher.close()


async def test_a_grant_on_one_device_shows_only_that_one():
    shown = await device_made()
    hidden = await device_made(fleet=shown.fleet)
    user = await user_made()
    await Grant.objects.acreate(user=user, device=shown)
    for device in (shown, hidden):
        await ingest.accept(device, [make_fix(-9)])
    watcher = Watcher(await cookie_of(user))
    await watcher.open([5, 45, 15, 50])
    assert set(watcher.items) == {str(shown.pk)}
    for device in (hidden, shown):
        await ingest.accept(device, [make_fix(0, steps=5)])
    await watcher.until(lambda: len(watcher.frames) == 2, "delta")
    assert [item["id"] for item in watcher.frames[1]["items"]] == [str(shown.pk)]
    await watcher.until(lambda: watcher.kind("roster"), "roster")
    names = [item["name"] for item in watcher.kind("roster")[0]["items"]]
    assert names == [shown.name]
    await watcher.close()


async def test_an_expired_grant_shows_nothing():
    device = await device_made()
    user = await user_made()
    ago = timezone.now() - timedelta(seconds=1)
    await Grant.objects.acreate(user=user, fleet=device.fleet, expires_at=ago)
    await ingest.accept(device, [make_fix(-9)])
    watcher = Watcher(await cookie_of(user))
    await watcher.open()
    assert watcher.items == {}
    await watcher.close()


async def test_a_grant_taken_back_empties_the_open_map_within_a_second():
    device = await device_made()
    user = await user_made()
    grant = await Grant.objects.acreate(user=user, fleet=device.fleet)
    await ingest.accept(device, [make_fix(-9)])
    watcher = Watcher(await cookie_of(user))
    await watcher.open()
    assert len(watcher.items) == 1
    await sync_to_async(grant.delete)()
    await watcher.until(lambda: not watcher.items, "empty map", 2)
    assert watcher.frames[-1]["full"]
    await watcher.close()


async def test_a_revoked_token_closes_the_device_s_socket_within_a_second():
    token = await token_made(await device_made())
    phone = Phone(token)
    await phone.open()
    row = await DeviceToken.objects.aget()
    row.revoked_at = timezone.now()
    await row.asave(update_fields=["revoked_at"])
    closed = await phone.socket.receive_output(2)
    assert closed == {"type": "websocket.close", "code": 4401}
    again = Phone(token)
    await again.socket.connect()
    assert (await again.socket.receive_output())["code"] == 4401


async def test_a_browser_offers_its_token_as_a_subprotocol_and_never_hears_it_back():
    device = await device_made()
    phone = Phone(await token_made(device), subprotocol=True)
    hello = await phone.open()
    assert phone.protocol == "drover.v1"
    assert (hello["device"], hello["name"]) == (str(device.pk), device.name)
    await phone.close()


async def test_a_cookie_is_no_device_token():
    user = await user_made(superuser=True)
    phone = Phone("")
    phone.socket.scope["headers"] = [(b"cookie", (await cookie_of(user)).encode())]
    await phone.socket.connect()
    assert (await phone.socket.receive_output())["code"] == 4401


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not json", "bad_json"),
        ("[]", "bad_json"),
        ('{"type":"teleport","id":"7"}', "bad_type"),
        ('{"type":"fix","id":"7","lat":"NaN","lon":1,"fixed_at":1}', "bad_coord"),
        ('{"type":"fixes","id":"7","fixes":{}}', "bad_batch"),
        ('{"type":"fix","id":"7","x":"' + "x" * 17_000 + '"}', "too_big"),
    ],
)
async def test_a_bad_message_gets_a_reason_and_the_socket_stays(text, reason):
    phone = Phone(await token_made(await device_made()))
    await phone.open()
    await phone.socket.send_to(text)
    answer = await phone.read()
    assert (answer["type"], answer["reason"]) == ("error", reason)
    assert answer.get("id") == ("7" if '"id"' in text else None)
    fix = as_message(make_fix())
    assert (await phone.tell(type="fix", id=1, **fix))["result"] == "accepted"
    await phone.close()


@pytest.mark.parametrize(
    ("frame", "code"),
    [({"bytes_data": b"\x00"}, 1003), ({"text_data": "x" * 70_000}, 1009)],
)
async def test_what_is_no_message_at_all_closes_the_socket(frame, code):
    phone = Phone(await token_made(await device_made()))
    await phone.open()
    await phone.socket.send_to(**frame)
    assert (await phone.socket.receive_output(2))["code"] == code
