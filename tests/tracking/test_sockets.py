"""What comes in on a socket: junk and claims. No socket dies of it."""

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from project.asgi import application
from tests.tracking.factories import (
    make_device,
    make_token,
    make_user,
    session_cookie,
)
from tests.tracking.sockets import Phone, Watcher
from tracking.models import Device

pytestmark = pytest.mark.usefixtures("running_hub")


@pytest.fixture
async def van() -> tuple[Device, str]:
    device = await sync_to_async(make_device)()
    return device, await sync_to_async(make_token)(device)


@sync_to_async
def a_cookie() -> str:
    return session_cookie(make_user(superuser=True))


async def test_an_id_that_cannot_be_repeated_is_refused_and_the_socket_lives(van):
    phone = Phone(van[1])
    await phone.open()
    deep = '{"type":"ping","id":' + "[" * 300 + "]" * 300 + "}"
    for bad in (deep, '{"type":"ping","id":{}}', '{"type":"ping","id":true}'):
        await phone.socket.send_to(bad)
        answer = await phone.read()
        assert (answer["reason"], "id" in answer) == ("bad_id", False)
    assert (await phone.tell(type="ping", id=7))["result"] == "accepted"
    await phone.close()


async def test_a_journey_ends_even_if_its_last_fix_is_unusable(van):
    device, token = van
    phone = Phone(token)
    await phone.open()
    await phone.tell(type="start", id="1")
    answer = await phone.tell(type="stop", id="2", fix={"lat": "x"})
    assert answer == {
        "type": "ack",
        "id": "2",
        "result": "saved",
        "fix": "invalid:bad_time",
    }
    await device.arefresh_from_db()
    assert device.state == "stopped"
    await phone.close()


async def test_an_unknown_address_is_refused_without_a_trace():
    socket = WebsocketCommunicator(application, "/ws/none/")
    connected, code = await socket.connect(timeout=5)
    assert (connected, code) == (False, 4404)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "bad_json"),
        ('{"type":"watch","viewport":[NaN,1,2,3]}', "bad_json"),
        ('{"type":"watch","viewport":["1",1,2,3]}', "bad_viewport"),
        ('{"type":"watch","viewport":[1,2,3]}', "bad_viewport"),
        ('{"type":"watch","viewport":[1e7,1,2,3]}', "bad_viewport"),
        ('{"type":"ack","n":"5"}', "bad_ack"),
        ('{"type":"nope"}', "bad_type"),
        ('{"type":"watch","viewport":null,"x":"' + "x" * 16_384 + '"}', "too_big"),
    ],
)
async def test_junk_of_a_map_page_has_a_reason_and_changes_nothing(text, reason):
    watcher = Watcher(await a_cookie())
    await watcher.open()
    await watcher.socket.send_to(text)
    await watcher.until(lambda: watcher.kind("error"), "the error")
    assert watcher.kind("error")[0]["reason"] == reason
    await watcher.watch([5, 45, 15, 50])
    await watcher.until(lambda: len(watcher.frames) > 1, "the next view")
    await watcher.close()


async def test_a_device_that_names_another_one_stays_itself(van):
    other = await sync_to_async(make_device)()
    phone = Phone(van[1])
    hello = await phone.open()
    assert hello["device"] == str(van[0].pk)
    fix = {"lat": 47, "lon": 8, "fixed_at": hello["now"]}
    claims = {"device": str(other.pk), "device_id": other.pk, "fleet": other.fleet_id}
    answer = await phone.tell(type="stop", id="1", fix=fix | claims, **claims)
    assert answer["result"] == "saved"
    await van[0].arefresh_from_db()
    await other.arefresh_from_db()
    assert (van[0].state, other.state) == ("stopped", "never")
    await phone.close()
