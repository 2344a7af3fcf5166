"""Rare control events to every web process: rights changed, a token was revoked.

Before it: a saved or deleted Grant, user or DeviceToken, wherever that happens. After
it: `tracking.upkeep` of each hub, which also looks by itself every 30 s, since an event
may be lost.
"""

import logging
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models.signals import post_delete, post_save

from tracking import auth, keys
from tracking.models import DeviceToken, Fleet, Grant

logger = logging.getLogger(__name__)


def connect() -> None:
    """Hear every change of who may send and who may look."""
    for model in (Grant, Fleet, get_user_model()):
        post_save.connect(_rights_changed, sender=model)
        post_delete.connect(_rights_changed, sender=model)
    post_save.connect(_token_saved, sender=DeviceToken)
    post_delete.connect(_token_gone, sender=DeviceToken)


def _rights_changed(update_fields: frozenset[str] | None = None, **_: Any) -> None:
    if update_fields != frozenset({"last_login"}):
        transaction.on_commit(partial(announce, "tracking.rights"))


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
    try:
        async_to_sync(layer.group_send)(keys.CONTROL_GROUP, {"type": kind})
    except Exception:
        logger.exception("control event lost", extra={"action": "control_lost"})
