"""The HTTP doors answer what keeps each phone app healthy."""

import logging

import pytest
from asgiref.sync import sync_to_async
from django.test import Client, override_settings

from tests.tracking.factories import make_device, make_fix, make_token, make_user
from tests.tracking.sockets import as_message
from tracking import history
from tracking.models import Device, Position

pytestmark = pytest.mark.usefixtures("running_hub")


@pytest.fixture
async def phone(async_client, running_hub):
    device = await sync_to_async(make_device)()
    return device, await sync_to_async(make_token)(device)


def query(fix, **over) -> dict[str, str]:
    place = {"lat": fix.latitude, "lon": fix.longitude, "timestamp": fix.fixed_at_ms}
    return {name: str(value) for name, value in (place | over).items()}


async def stored(device: Device) -> list[Position]:
    await sync_to_async(history.flush)(device.fleet_id)
    return [row async for row in Position.objects.filter(device=device).order_by("id")]


async def test_osmand_takes_a_query_and_a_form_with_and_without_slash(
    async_client, phone
):
    device, token = phone
    answer = await async_client.get(f"/osmand/{token}/", query(make_fix(-9)))
    assert (answer.status_code, answer.content) == (200, b"accepted")
    form = query(make_fix(-5, steps=5), speed="10", batt="88")
    answer = await async_client.post(f"/osmand/{token}", form)
    assert (answer.status_code, answer.content) == (200, b"accepted")
    rows = await stored(device)
    assert [row.door for row in rows] == ["osmand", "osmand"]
    assert rows[1].speed_mps == pytest.approx(5.144, abs=0.001)
    assert rows[1].battery_pct == 88


async def test_a_bad_fix_is_200_so_that_no_phone_sends_it_for_ever(async_client, phone):
    device, token = phone
    for bad in ({"lat": "NaN", "lon": "1"}, {"lat": "91", "lon": "1"}, {"lat": "1"}):
        answer = await async_client.get(f"/osmand/{token}/", bad)
        assert answer.status_code == 200
        assert answer.content.startswith(b"bad_coord")
    assert await stored(device) == []


async def test_a_heartbeat_has_no_place_and_is_welcome(async_client, phone):
    _device, token = phone
    answer = await async_client.post(f"/osmand/{token}/", {"id": "7", "batt": "50"})
    assert (answer.status_code, answer.content) == (200, b"heartbeat")


async def test_an_unknown_token_is_404_and_costs_one_query(
    async_client, phone, django_assert_num_queries
):
    answer = await async_client.get("/osmand/dr_wrong/", query(make_fix()))
    assert answer.status_code == 404
    answer = await async_client.get("/osmand/dr_wrong/", query(make_fix()))
    assert answer.status_code == 404


async def test_without_redis_phones_hear_503_never_429(async_client, phone, redis_away):
    _device, token = phone
    async with redis_away():
        answer = await async_client.get(f"/osmand/{token}/", query(make_fix()))
    assert answer.status_code == 503
    assert answer["Retry-After"]


async def test_a_token_in_the_path_never_gets_into_the_log(
    async_client, phone, redis_away, caplog
):
    _device, token = phone
    async with redis_away():
        await async_client.get(f"/osmand/{token}/", query(make_fix()))
    await async_client.post(f"/osmand/{token[:-1]}x/")
    ours = {h.get_name(): h for h in logging.getLogger().handlers}["stderr"]
    lines = [ours.format(record) for record in caplog.records]
    assert any("/osmand/" in line for line in lines)
    assert not any(token[9:-1] in line for line in lines)


async def test_with_a_full_buffer_phones_hear_503(async_client, phone):
    _device, token = phone
    with override_settings(TRACKING_BUFFER_LIMIT=0):
        answer = await async_client.get(f"/osmand/{token}/", query(make_fix()))
    assert answer.status_code == 503


async def test_json_answers_each_fix_in_its_place(async_client, phone):
    device, token = phone
    fixes = [as_message(make_fix(-9)), {"lat": 91}, as_message(make_fix(-5, steps=5))]
    answer = await async_client.post(
        "/api/fixes/",
        {"fixes": fixes},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert answer.status_code == 200
    expected = ["accepted", "invalid:bad_time", "accepted"]
    assert answer.json() == {"results": expected}
    assert len(await stored(device)) == 2


@pytest.mark.parametrize(
    ("body", "status"), [("nonsense", 400), ('{"fixes": 7}', 400), ("[]", 400)]
)
async def test_json_that_is_no_batch_is_refused(async_client, phone, body, status):
    headers = {"Authorization": f"Bearer {phone[1]}"}
    answer = await async_client.post(
        "/api/fixes/", body, content_type="application/json", headers=headers
    )
    assert answer.status_code == status
    assert answer.json()["detail"]


async def test_json_without_a_token_is_401(async_client, phone):
    answer = await async_client.post(
        "/api/fixes/", {"fixes": []}, content_type="application/json"
    )
    assert answer.status_code == 401


@pytest.mark.django_db(transaction=True)
def test_the_map_asks_who_you_are_and_the_phone_page_does_not(client: Client):
    assert client.get("/").status_code == 302
    assert client.get("/phone/").status_code == 200
    client.force_login(make_user())
    assert client.get("/").status_code == 200
