"""Writing a message off: its dead letter and the attempts that failed.

Before it: `inbox`, inside the transaction that makes a message dead. After it:
`dead_letters` and the admin.
"""

import hashlib
import os
import re
import socket
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now
from prometheus_client import Counter

from streaming.models import Attempt, DeadLetter, InboxMessage

BURIED = Counter(
    "drover_streaming_dead_letters_total", "Messages given up on.", ["reason"]
)
MAX_TEXT = 8000


@dataclass(frozen=True)
class Failure:
    """Why an attempt ended: a short reason to filter by, and what to read."""

    reason: str
    error_class: str = ""
    detail: str = ""
    path: str = ""
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException, reason: str = "", path: str = "") -> "Failure":
        lines = traceback.format_exception(error)
        return cls(
            reason=reason,
            error_class=type(error).__name__,
            detail=storable(str(error)),
            path=storable(path)[:200],
            traceback=storable("".join(lines)),
        )


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"[:120]


def database_address() -> str:
    """Without the password."""
    options = settings.DATABASES["default"]
    return f"{options['HOST'] or 'socket'}:{options['PORT'] or ''}/{options['NAME']}"


def storable(text: str) -> str:
    """PostgreSQL takes no null character and no half surrogate pair."""
    clean = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= MAX_TEXT else clean[:MAX_TEXT] + " …"


def fingerprint(subscription_id: int, failure: Failure) -> str:
    """The same for failures that differ only in numbers and quoted values."""
    shape = re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "#", failure.detail[:300])
    parts = (subscription_id, failure.reason, failure.error_class, failure.path, shape)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def attempt(
    message_id: int,
    number: int,
    outcome: Attempt.Outcome,
    failure: Failure,
    *,
    retry_after_s: float | None = None,
) -> None:
    """One row per attempt that did not end well."""
    Attempt.objects.create(
        message_id=message_id,
        number=number,
        outcome=outcome,
        worker=worker_name(),
        error_class=failure.error_class,
        error=failure.detail,
        traceback=failure.traceback,
        retry_at=None
        if retry_after_s is None
        else Now() + timedelta(seconds=retry_after_s),
    )


def bury_invalid(
    subscription_ids: Sequence[int],
    messages: Sequence[InboxMessage],
    failures: Sequence[Failure],
) -> None:
    """Letters for messages that were dead on arrival; three sequences, same order."""
    rows = list(zip(subscription_ids, messages, failures, strict=True))
    DeadLetter.objects.bulk_create([_letter(*row) for row in rows])
    Attempt.objects.bulk_create(
        Attempt(
            message_id=message.pk,
            number=1,
            outcome=Attempt.Outcome.INVALID,
            worker=worker_name(),
            error_class=failure.error_class,
            error=failure.detail,
        )
        for _, message, failure in rows
    )
    for failure in failures:
        BURIED.labels(failure.reason).inc()


def bury(subscription_id: int, message: InboxMessage, failure: Failure) -> None:
    """The letter of one message; the same row again when a replay failed.

    Letters of earlier revisions that waited for this one are closed.
    """
    letter = _letter(subscription_id, message, failure)
    again = {
        "state": DeadLetter.State.NEW,
        "reason": letter.reason,
        "error_class": letter.error_class,
        "detail": letter.detail,
        "path": letter.path,
        "fingerprint": letter.fingerprint,
        "attempts": F("attempts") + message.attempts,
        "replays": message.replay_no,
        "last_failed_at": Now(),
        "resolution": "",
        "resolved_by": "",
        "resolved_at": None,
    }
    if not DeadLetter.objects.filter(message_id=message.pk).update(**again):
        letter.save()
    if message.revision:
        close_earlier(message, f"Revision {message.revision} failed again.")
    BURIED.labels(failure.reason).inc()


def close_earlier(message: InboxMessage, resolution: str) -> None:
    DeadLetter.objects.filter(
        incarnation_id=message.incarnation_id,
        partition=message.partition,
        offset=message.offset,
        revision__lt=message.revision,
        state=DeadLetter.State.REPLAYING,
    ).update(state=DeadLetter.State.REPLAYED, resolution=resolution, resolved_at=Now())


def _letter(
    subscription_id: int, message: InboxMessage, failure: Failure
) -> DeadLetter:
    return DeadLetter(
        message_id=message.pk,
        subscription_id=subscription_id,
        incarnation_id=message.incarnation_id,
        partition=message.partition,
        offset=message.offset,
        revision=message.revision,
        key=message.key,
        key_hash=message.key_hash,
        reason=storable(failure.reason)[:60],
        error_class=failure.error_class[:120],
        detail=failure.detail,
        path=failure.path,
        fingerprint=fingerprint(subscription_id, failure),
        attempts=message.attempts,
        replays=message.replay_no,
    )
