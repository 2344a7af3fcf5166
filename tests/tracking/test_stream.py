"""From a device socket to a watcher: what is told, to whom, and when."""

import pytest
from asgiref.sync import sync_to_async

from tests.tracking.factories import (
    make_device,
    make_fix,
    make_token,
    make_user,
    session_cookie,
)
from tests.tracking.sockets import Phone, Watcher, as_message
from tracking.models import Device, Position

pytestmark = pytest.mark.usefixtures("running_hub")


@sync_to_async
def a_fleet(count: int = 2):
    devices = [make_device()]
    devices += [make_device(fleet=devices[0].fleet) for _ in range(count - 1)]
    tokens = [make_token(device) for device in devices]
    return devices, tokens, session_cookie(make_user(superuser=True))


async def test_a_watcher_gets_a_snapshot_and_then_only_what_changed():
    devices, tokens, cookie = await a_fleet(2)
    phones = [Phone(token) for token in tokens]
    for phone in phones:
        assert (await phone.open())["type"] == "hello"
        answer = await phone.tell(type="fix", id="1", **as_message(make_fix(-10)))
        assert answer == {"type": "ack", "id": "1", "result": "accepted"}

    watcher = Watcher(cookie)
    await watcher.open()
    assert watcher.frames[0]["full"]
    assert set(watcher.items) == {str(device.pk) for device in devices}

    await phones[0].tell(type="fix", id="2", **as_message(make_fix(0, steps=2)))
    await watcher.until(lambda: len(watcher.frames) == 2, "the delta")
    delta = watcher.frames[1]
    assert not delta["full"]
    assert [item["id"] for item in delta["items"]] == [str(devices[0].pk)]

    answer = await phones[0].tell(
        type="stop", id="3", fix=as_message(make_fix(1, steps=3))
    )
    assert answer["result"] == "saved"
    saved = await Position.objects.aget(device=devices[0])
    assert saved.latitude == make_fix(steps=3).latitude
    assert not (await Device.objects.aget(pk=devices[0].pk)).active
    await watcher.until(
        lambda: watcher.items[str(devices[0].pk)]["st"] == "stopped", "stop"
    )
    await watcher.until(lambda: len(watcher.kind("roster")) >= 1, "roster")
    events = [(event["event"], event["id"]) for event in watcher.kind("event")]
    assert events == [("stop", str(devices[0].pk))]
    for phone in phones:
        await phone.close()
    await watcher.close()
