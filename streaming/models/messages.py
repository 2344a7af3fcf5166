"""What was received: in the inbox while it waits or is dead, then handled.

Before it: `positions`. After it: `inbox`, the only writer.
"""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from streaming.models.positions import Lane, TopicIncarnation


class Received(models.Model):
    """What a message is, wherever it lies. The bytes are as they came."""

    # No database constraint: a check per inserted row would lock its target, and a
    # lane locked so is skipped by every worker.
    incarnation = models.ForeignKey(
        TopicIncarnation,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    revision = models.IntegerField(default=0, db_default=0)
    key = models.BinaryField(null=True)
    key_hash = models.BigIntegerField(null=True)
    value = models.BinaryField(null=True)
    headers = models.JSONField(default=list)
    ts_ms = models.BigIntegerField("time of the record (ms)")
    received_at = models.DateTimeField(db_default=Now())
    attempts = models.IntegerField(default=0, db_default=0)
    replay_no = models.IntegerField("replays", default=0, db_default=0)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        topic = self.incarnation.subscription.topic
        edited = f" revision {self.revision}" if self.revision else ""
        return f"{topic}/{self.partition}@{self.offset}{edited}"

    @property
    def uid(self) -> uuid.UUID:
        """The idempotency key for effects elsewhere: the same for a replay."""
        name = f"{self.partition}/{self.offset}/{self.revision}"
        return uuid.uuid5(self.incarnation.topic_uuid, name)


class InboxMessage(Received):
    """A message that waits (ready, also while claimed) or that was given up on (dead)."""

    class Status(models.IntegerChoices):
        READY = 0, "ready"
        DEAD = 1, "dead"

    lane = models.ForeignKey(
        Lane,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    status = models.SmallIntegerField(choices=Status, default=0, db_default=0)
    not_before = models.DateTimeField(null=True)
    claim_epoch = models.BigIntegerField(null=True)
    claimed_in_group = models.BooleanField(default=False, db_default=False)

    class Meta:
        verbose_name = "waiting message"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["incarnation", "partition", "offset", "revision"],
                name="inbox_identity",
            )
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["lane", "incarnation", "partition", "offset"],
                condition=models.Q(status=0),
                name="inbox_ready",
            )
        ]


class HandledMessage(Received):
    """A message that had its effect. Its id is the one it had in the inbox."""

    id = models.BigIntegerField(primary_key=True)
    handler = models.CharField(max_length=100)
    outcome = models.CharField(max_length=60, blank=True)
    handled_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name = "handled message"
        indexes: ClassVar = [
            models.Index(
                fields=["incarnation", "partition", "offset"], name="handled_identity"
            ),
            models.Index(fields=["key_hash"], name="handled_key"),
        ]
