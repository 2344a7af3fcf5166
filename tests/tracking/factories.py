"""Plain functions that make what a tracking test needs."""

import itertools
import time
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from tracking import auth
from tracking.fixes import Fix
from tracking.models import Device, Fleet

_numbers = itertools.count(1)
# About 11.1 m of latitude: just more than the 10 m rule.
STEP_DEG = 0.0001


def make_device(**over: Any) -> Device:
    number = next(_numbers)
    fleet = over.pop("fleet", None) or make_fleet()
    return Device.objects.create(**{"name": f"Van {number}", "fleet": fleet} | over)


def make_fleet(name: str = "") -> Fleet:
    return Fleet.objects.create(name=name or f"Fleet {next(_numbers)}")


def make_token(device: Device) -> str:
    return auth.create_token(device)


def make_user(*, superuser: bool = False) -> Any:
    users: Any = get_user_model().objects
    create = users.create_superuser if superuser else users.create_user
    return create(f"user{next(_numbers)}", password="secret")


def session_cookie(user: Any) -> str:
    client = Client()
    client.force_login(user)
    return f"sessionid={client.cookies['sessionid'].value}"


def make_fix(seconds: float = 0, steps: float = 0, **over: Any) -> Fix:
    """A fix `seconds` from now (rounded to one), `steps` of 11 m north of Zürich."""
    now_ms = round(time.time()) * 1000
    values = {
        "fixed_at_ms": now_ms + round(seconds * 1000),
        "latitude": 47.3769 + steps * STEP_DEG,
        "longitude": 8.5417,
    }
    return Fix(**values | over)
