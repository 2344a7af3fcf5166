"""The admin pages: a token is shown once, states are told, history is not counted."""

import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from tests.tracking.factories import make_device, make_fix, make_user
from tracking import auth, history
from tracking.ingest import accept_sync
from tracking.models import Device, DeviceToken, Grant, Position
from tracking.position_admin import EstimatingPaginator
from tracking.tasks import ensure_schedules, flush_positions

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client):
    client.force_login(make_user(superuser=True))
    return client


def test_a_token_is_shown_once_with_what_a_phone_needs(admin):
    device = make_device()
    url = reverse("admin:tracking_device_token", args=[device.pk])
    assert admin.get(url).status_code == 405
    page = admin.post(url)
    token = page.context["token"]
    assert f"/osmand/{token}/" in page.content.decode()
    assert f"/phone/#token={token}" in page.content.decode()
    assert "no-store" in page["Cache-Control"]
    row = DeviceToken.objects.get()
    assert row.digest == auth.digest_of(token)
    assert token not in admin.get(url.replace("token/", "change/")).content.decode()


def test_a_token_needs_its_own_permission(client):
    user = make_user()
    user.is_staff = True
    user.save()
    user.user_permissions.set(Permission.objects.filter(codename="change_device"))
    client.force_login(user)
    url = reverse("admin:tracking_device_token", args=[make_device().pk])
    assert client.post(url).status_code == 403
    assert not DeviceToken.objects.exists()


def test_devices_show_their_state_by_redis_and_by_the_database(admin):
    live, stopped, never = make_device(), make_device(), make_device()
    accept_sync(live, [make_fix()])
    history.mark_started(stopped.pk, 1)
    Device.objects.filter(pk=stopped.pk).update(active=False, stopped_at=timezone.now())
    text = admin.get(reverse("admin:tracking_device_changelist")).content.decode()
    for state in ("● live", "■ stopped", "… never"):
        assert state in text
    assert never.name in text
    assert "47.37690, 8.54170" in text


def test_renaming_a_device_leaves_its_state_alone(admin):
    device = make_device()
    data = {"name": "Renamed", "fleet": device.fleet_id, "kind": "phone"}
    data |= {f"tokens-{key}_FORMS": 0 for key in ("TOTAL", "INITIAL")}
    page = admin.post(reverse("admin:tracking_device_change", args=[device.pk]), data)
    assert page.status_code == 302
    device.refresh_from_db()
    assert (device.name, device.kind) == ("Renamed", "phone")


def test_revoking_is_an_action_on_tokens(admin):
    auth.create_token(make_device())
    token = DeviceToken.objects.get()
    data = {"action": "revoke", "_selected_action": [token.pk]}
    admin.post(reverse("admin:tracking_devicetoken_changelist"), data)
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_positions_are_read_only_and_never_counted(
    admin, django_assert_max_num_queries
):
    device = make_device()
    accept_sync(device, [make_fix(-n, steps=n) for n in range(5)])
    history.flush(device.fleet_id)
    with django_assert_max_num_queries(8):
        page = admin.get(reverse("admin:tracking_position_changelist"))
    assert page.status_code == 200
    position = Position.objects.first()
    assert position is not None
    url = reverse("admin:tracking_position_change", args=[position.pk])
    assert admin.get(url).status_code == 200
    assert admin.post(url, {"latitude": 1}).status_code == 403
    assert EstimatingPaginator(Position.objects.order_by("id"), 50).count == 5


@pytest.mark.parametrize(
    "model", ["fleet", "device", "devicetoken", "grant", "position"]
)
def test_every_list_and_form_opens(admin, model):
    device = make_device()
    Grant.objects.create(user=make_user(), device=device)
    auth.create_token(device)
    assert admin.get(reverse(f"admin:tracking_{model}_changelist")).status_code == 200
    if model in {"fleet", "device", "grant"}:
        assert admin.get(reverse(f"admin:tracking_{model}_add")).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_the_job_flushes_every_fleet():
    from project.jobs.lease import hold

    for _ in range(2):
        accept_sync(make_device(), [make_fix()])
    with hold("flush-positions", {}, ttl=30, trigger="manual") as lease:
        flush_positions.function(lease)
        assert lease.run is not None
    assert Position.objects.count() == 2


def test_the_schedule_is_there_after_migrate_and_stays_as_operators_left_it():
    from django_celery_beat.models import PeriodicTask

    ensure_schedules()
    row = PeriodicTask.objects.get(name="flush-positions")
    assert row.task == "tracking.flush_positions"
    PeriodicTask.objects.filter(pk=row.pk).update(enabled=False)
    ensure_schedules()
    assert (
        PeriodicTask.objects.filter(name="flush-positions", enabled=False).count() == 1
    )
