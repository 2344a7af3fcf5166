"""The tables of streaming. Large ones are written in raw SQL, by one module each."""

from streaming.models.letters import Attempt, DeadLetter
from streaming.models.messages import HandledMessage, InboxMessage, Received
from streaming.models.positions import (
    LANES,
    BlockedKey,
    Cursor,
    Lane,
    Subscription,
    TopicIncarnation,
)

__all__ = [
    "LANES",
    "Attempt",
    "BlockedKey",
    "Cursor",
    "DeadLetter",
    "HandledMessage",
    "InboxMessage",
    "Lane",
    "Received",
    "Subscription",
    "TopicIncarnation",
]
