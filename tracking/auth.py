"""Who sends and who looks: device tokens, and what a user may see.

Before it: a door with a token, or a map socket with a session cookie. After it:
`tracking.ingest` with a device, or `tracking.hub` with a Sight.
"""

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.db import DatabaseError, InterfaceError
from django.db.models import Q
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from tracking.ingest import Unavailable
from tracking.models import Device, DeviceToken, Fleet, Grant
from tracking.watchers import Sight

TOKEN_START = "dr_"  # noqa: S105 (the start of every token, no secret)
SHOWN_CHARACTERS = 8
CACHED_S = 30.0
MOST_CACHED = 50_000
USED_STEP = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Identity:
    """The device that a token stands for."""

    id: int
    fleet_id: int
    name: str
    token_id: int


def create_token(device: Device) -> str:
    """A new token of 256 random bits; nobody can read it again afterwards."""
    token = TOKEN_START + secrets.token_urlsafe(32)
    DeviceToken.objects.create(
        device=device, prefix=token[:SHOWN_CHARACTERS], digest=digest_of(token)
    )
    return token


def digest_of(token: str) -> str:
    return sha256(token.encode()).hexdigest()


async def identify(token: str) -> Identity | None:
    """The device of a token, from this process's memory for some seconds.

    With the database away a known token stays good; Unavailable for any other.
    """
    digest = digest_of(token)
    known = _CACHE.get(digest)
    if known is not None and known[0] > time.monotonic():
        return known[1]
    try:
        identity = await database_sync_to_async(_look_up)(digest)
    except (DatabaseError, InterfaceError) as error:
        if known is not None and known[1] is not None:
            return known[1]
        raise Unavailable("DATABASE_URL is not reachable") from error
    _CACHE.pop(digest, None)
    _CACHE[digest] = (time.monotonic() + CACHED_S, identity)
    if len(_CACHE) > MOST_CACHED:
        _CACHE.pop(next(iter(_CACHE)), None)
    return identity


def forget_tokens() -> None:
    """A token was made or revoked somewhere: ask the database again."""
    _CACHE.clear()


_CACHE: dict[str, tuple[float, Identity | None]] = {}


def _look_up(digest: str) -> Identity | None:
    token = (
        DeviceToken.objects.filter(digest=digest, revoked_at=None)
        .select_related("device")
        .first()
    )
    if token is None:
        return None
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - USED_STEP:
        DeviceToken.objects.filter(pk=token.pk).update(last_used_at=now)
    device = token.device
    return Identity(device.pk, device.fleet_id, device.name, token.pk)


def bearer(headers: dict[bytes, bytes]) -> str:
    """The token of an Authorization header, or an empty text."""
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def is_same_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether a page of this very site opened the socket; a missing Origin is not one."""
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    allowed = settings.ALLOWED_HOSTS
    domain, _port = split_domain_port(host)
    return (
        bool(domain)
        and origin in (f"http://{host}", f"https://{host}")
        and validate_host(domain, allowed)
    )


def session_of(headers: dict[bytes, bytes]) -> str:
    """The session key of a browser's cookie, or an empty text."""
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    return cookies.get(settings.SESSION_COOKIE_NAME, "")


def user_of(session: str) -> int | None:
    """The user of a session, checked as Django does for a page."""
    request = HttpRequest()
    engine: Any = import_module(settings.SESSION_ENGINE)
    request.session = engine.SessionStore(session or None)
    user = get_user(request)
    return user.pk if user.is_authenticated and user.is_active else None


def viewers(sessions: Iterable[str]) -> dict[str, tuple[int, Sight]]:
    """User id and sight by session; sessions that have ended are left out."""
    users = {session: user_of(session) for session in set(sessions)}
    seen = sights(user_id for user_id in users.values() if user_id is not None)
    return {
        session: (user_id, seen[user_id])
        for session, user_id in users.items()
        if user_id in seen
    }


def sights(user_ids: Iterable[int]) -> dict[int, Sight]:
    """What each active user may see now; others are left out."""
    users = get_user_model().objects.filter(pk__in=set(user_ids), is_active=True)
    return {user.pk: _sight(user) for user in users}


def _sight(user: Any) -> Sight:
    if user.is_superuser:
        return Sight(tuple(Fleet.objects.order_by("pk").values_list("pk", flat=True)))
    grants = Grant.objects.filter(user=user).filter(
        Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    )
    fleets = {grant for grant in grants.values_list("fleet_id", flat=True) if grant}
    devices = grants.exclude(device=None).exclude(device__fleet__in=fleets)
    pairs = set(devices.values_list("device__fleet_id", "device_id"))
    return Sight(
        tuple(sorted(fleets)),
        tuple(sorted((fleet_id, str(device_id)) for fleet_id, device_id in pairs)),
    )
