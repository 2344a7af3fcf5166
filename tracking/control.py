"""Rare control events to every web process: rights, tokens or devices have changed.

Before it: a saved or deleted Grant, user, session, Device or DeviceToken. After it: `tracking.upkeep` of each hub, which also looks by itself every 30 s, since an event
may be lost.
"""

import logging
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.utils import timezone
from redis import RedisError

from tracking import auth, keys
from tracking.models import Device, DeviceToken, Fleet, Grant

logger = logging.getLogger(__name__)


def connect() -> None:
    """Hear every change of who may send and who may look."""
    for model in (Grant, Fleet, get_user_model()):
        post_save.connect(_rights_changed, sender=model)
        post_delete.connect(_rights_changed, sender=model)
    post_delete.connect(_session_gone, sender=Session)
    for signal in (post_save, post_delete):
        signal.connect(_device_changed, sender=Device)
    post_save.connect(_token_saved, sender=DeviceToken)
    post_delete.connect(_token_gone, sender=DeviceToken)


def _rights_changed(update_fields: frozenset[str] | None = None, **_: Any) -> None:
    if update_fields != frozenset({"last_login"}):
        transaction.on_commit(partial(announce, "tracking.rights"))


def _session_gone(instance: Session, **_: Any) -> None:
    # `clearsessions` deletes thousands at once, whose sockets are closed already.
    if instance.expire_date > timezone.now():
        transaction.on_commit(partial(announce, "tracking.rights"))


def _device_changed(**_: Any) -> None:
    auth.forget_tokens()
    transaction.on_commit(partial(announce, "tracking.devices"))


def _token_saved(instance: DeviceToken, **_: Any) -> None:
    auth.forget_tokens()
    if instance.revoked_at is not None:
        _token_gone()


def _token_gone(**_: Any) -> None:
    auth.forget_tokens()
    transaction.on_commit(partial(announce, "tracking.tokens"))


def announce(kind: str) -> None:
    """Tell every hub; a lost event costs 30 s, never a right."""
    layer = get_channel_layer()
    if layer is None:
        return
    send = async_to_sync(layer.group_send)
    try:
        try:
            send(keys.CONTROL_GROUP, {"type": kind})
        except (RedisError, OSError):
            # A connection from before a restart of Redis fails once.
            send(keys.CONTROL_GROUP, {"type": kind})
    except Exception:
        logger.exception("control event lost", extra={"action": "control_lost"})
