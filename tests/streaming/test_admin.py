"""Operators see every payload, whatever it is, and only what they may do."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.html import escape

from streaming import lanes
from streaming.handlers import HANDLERS
from streaming.models import Attempt, DeadLetter, InboxMessage
from tests.streaming.builders import (
    arrive,
    handles,
    lanes_of_ready,
    make_place,
    make_record,
    note,
)
from tests.streaming.test_schemas import HOSTILE, change

pytestmark = pytest.mark.django_db
LIST = "/admin/streaming/deadletter/"


def client_with(*codenames: str) -> Client:
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator(admin_user):
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def letter():
    record = make_record(7, b"{broken <script>alert(1)</script>", key=b"order-1")
    arrive(make_place(), [record], handles())
    return DeadLetter.objects.get()


def page(client, address):
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_every_hostile_payload_is_one_dead_letter_with_a_page(operator):
    values: list[Any] = [parameter.values[0] for parameter in HOSTILE]
    records = [
        make_record(
            n, value, key=bytes([n, 255]), headers=[("h", None), ("h", b"\xff")]
        )
        for n, value in enumerate(values)
    ]
    recorded = arrive(make_place(), records, handles())
    assert (recorded.ready, recorded.dead) == (0, len(values))
    assert page(operator, LIST).count("badge-bad") == len(values)
    for letter in DeadLetter.objects.all():
        assert letter.reason in page(operator, f"{LIST}{letter.pk}/change/")


def test_a_payload_is_escaped(operator, letter):
    html = page(operator, f"{LIST}{letter.pk}/change/")
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


@pytest.mark.parametrize(
    ("term", "count"),
    [
        pytest.param("order-1", 1, id="key"),
        pytest.param("7", 1, id="offset"),
        pytest.param("8", 0, id="another offset"),
        pytest.param("order", 0, id="part of a key"),
        pytest.param("9" * 40, 0, id="no bigint"),
    ],
)
def test_search_finds_a_whole_key_or_an_offset(operator, letter, term, count):
    found = re.findall(r"deadletter/\d+/change", page(operator, f"{LIST}?q={term}"))
    assert len(set(found)) == count


def test_a_selection_is_replayed_after_a_question(operator, letter):
    selection = {"action": "replay_selected", "_selected_action": letter.pk}
    question = operator.post(LIST, selection)
    assert "byte for byte" in question.content.decode()
    assert not InboxMessage.objects.filter(status=0).exists()
    answer = operator.post(LIST, selection | {"confirmed": "Replay"}, follow=True)
    assert "1 sent again, 0 skipped" in answer.content.decode()
    assert InboxMessage.objects.get().replay_no == 1
    assert LogEntry.objects.get().change_message == "Replayed."


def test_the_button_asks_first_and_replays_by_post(operator, letter):
    assert "byte for byte" in page(operator, f"{LIST}{letter.pk}/replay/")
    assert DeadLetter.objects.get().state == "new"
    operator.post(f"{LIST}{letter.pk}/replay/", {"confirmed": "Replay"})
    assert DeadLetter.objects.get().state == "replaying"
    assert "Replay…" not in page(operator, f"{LIST}{letter.pk}/change/")


def test_an_edit_starts_from_the_payload_and_becomes_a_revision(operator, letter):
    assert "{broken" in page(operator, f"{LIST}{letter.pk}/edit/")
    payload = change().decode() + "\r\n"
    operator.post(f"{LIST}{letter.pk}/edit/", {"payload": payload})
    revision = InboxMessage.objects.get(revision=1)
    assert bytes(revision.value or b"") == change() + b"\n"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        pytest.param(
            '{"broken', "bad_json: Unterminated string starting at line 1", id="no JSON"
        ),
        pytest.param(
            '{"schema": "other/1"}', "unknown_schema: No handler takes", id="schema"
        ),
        pytest.param('{"schema": "fix/1"}', "missing_field: $.device:", id="field"),
    ],
)
def test_an_edit_that_would_be_dead_at_once_is_refused(operator, letter, typed, told):
    answer = operator.post(f"{LIST}{letter.pk}/edit/", {"payload": typed})
    form = answer.context["form"]
    assert told in form.errors["payload"][0]
    html = answer.content.decode()
    assert str(form.errors["payload"]) in html
    assert f"{escape(typed)}</textarea>" in html
    assert InboxMessage.objects.count() == 1
    assert DeadLetter.objects.get().state == "new"


def test_a_revision_that_failed_again_is_no_success_and_is_linked(operator, letter):
    edited = change(source="no-such-source").decode()
    operator.post(f"{LIST}{letter.pk}/edit/", {"payload": edited})
    lanes.drain(lanes_of_ready(), HANDLERS)
    second = DeadLetter.objects.get(revision=1)
    assert (second.state, second.reason) == ("new", "unknown_source")
    original = page(operator, f"{LIST}{letter.pk}/change/")
    for html in (original, page(operator, LIST)):
        assert "badge-good" not in html
        assert "badge-warn" in html
        assert "replayed, failed again" in html
    assert f'href="{LIST}{second.pk}/change/">{second}</a>' in original
    assert "Replayed by admin: Revision 1 failed again." in original
    newer = page(operator, f"{LIST}{second.pk}/change/")
    assert f'href="{LIST}{letter.pk}/change/">{letter}</a>' in newer


def test_discarding_needs_a_reason(operator, letter):
    address = f"{LIST}{letter.pk}/discard/"
    answer = operator.post(address, {"confirmed": "Discard", "reason": " "})
    assert "This field is required" in answer.content.decode()
    operator.post(address, {"confirmed": "Discard", "reason": "a test"})
    assert DeadLetter.objects.get().resolution == "a test"


@pytest.mark.parametrize("verb", ["replay", "edit", "discard"])
def test_each_verb_needs_its_own_permission(letter, verb):
    others = {"replay", "edit", "discard"} - {verb}
    client = client_with("view_deadletter", *(f"{v}_deadletter" for v in others))
    html = page(client, f"{LIST}{letter.pk}/change/")
    assert f"/{letter.pk}/{verb}/" not in html
    for method in (client.get, client.post):
        assert method(f"{LIST}{letter.pk}/{verb}/").status_code == 403
    assert DeadLetter.objects.get().state == "new"


def test_a_list_of_letters_costs_the_same_whatever_its_length(
    operator, django_assert_max_num_queries
):
    records = [make_record(n, b"{", key=b"%d" % n) for n in range(40)]
    arrive(make_place(), records, handles())
    with django_assert_max_num_queries(12):
        page(operator, LIST)


def test_all_pages_of_the_app_open(operator):
    table = handles()
    arrive(make_place(), [make_record(0, note("x")), make_record(1, None)], table)
    message = InboxMessage.objects.get(status=0)
    Attempt.objects.create(message_id=message.pk, number=1, outcome="failed")
    for model in ("subscription", "cursor", "inboxmessage", "handledmessage"):
        page(operator, f"/admin/streaming/{model}/")
    page(operator, f"/admin/streaming/inboxmessage/{message.pk}/change/")
    page(operator, "/admin/streaming/inboxmessage/?q=k")


def test_a_subscription_added_by_hand_has_its_lanes(operator):
    fields = {"topic": "t", "group": "g", "ordering": "key", "start": "earliest"}
    operator.post("/admin/streaming/subscription/add/", fields | {"enabled": "on"})
    from streaming.models import LANES, Lane

    assert Lane.objects.count() == LANES
