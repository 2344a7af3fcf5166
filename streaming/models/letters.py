"""What died: a dead letter per message given up on, and every attempt that failed.

Before it: `inbox` writes both. After it: `dead_letters` and the admin.
"""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from streaming.models.positions import Subscription, TopicIncarnation


class DeadLetter(models.Model):
    """A message Drover gave up on, written in the transaction that made it dead.

    `message_id` is the id in the inbox, and in HandledMessage once a replay went well.
    """

    class State(models.TextChoices):
        NEW = "new", "new"
        REPLAYING = "replaying", "replaying"
        REPLAYED = "replayed", "replayed"
        DISCARDED = "discarded", "discarded"

    message_id = models.BigIntegerField(unique=True)
    subscription = models.ForeignKey(
        Subscription, on_delete=models.PROTECT, related_name="dead_letters"
    )
    incarnation = models.ForeignKey(
        TopicIncarnation, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    revision = models.IntegerField(default=0)
    key = models.BinaryField(null=True)
    key_hash = models.BigIntegerField(null=True, db_index=True)
    state = models.CharField(max_length=10, choices=State, default=State.NEW)
    reason = models.CharField(max_length=60)
    error_class = models.CharField(max_length=120, blank=True)
    detail = models.TextField(blank=True)
    path = models.CharField("JSON path", max_length=200, blank=True)
    fingerprint = models.CharField(max_length=16, db_index=True)
    attempts = models.IntegerField(default=0)
    replays = models.IntegerField(default=0)
    first_failed_at = models.DateTimeField(db_default=Now())
    last_failed_at = models.DateTimeField(db_default=Now())
    resolution = models.CharField(max_length=300, blank=True)
    resolved_by = models.CharField(max_length=150, blank=True)
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "dead letter"
        ordering = ["-id"]
        permissions = [
            ("replay_deadletter", "Can replay a dead letter"),
            ("edit_deadletter", "Can edit and replay a dead letter"),
            ("discard_deadletter", "Can discard a dead letter"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "-id"], name="deadletter_state"),
            models.Index(fields=["reason", "-id"], name="deadletter_reason"),
            models.Index(
                fields=["incarnation", "partition", "offset"],
                name="deadletter_identity",
            ),
        ]

    def __str__(self) -> str:
        edited = f" revision {self.revision}" if self.revision else ""
        return f"{self.subscription}/{self.partition}@{self.offset}{edited}"


class Attempt(models.Model):
    """One try that did not end well. What went well is a HandledMessage."""

    class Outcome(models.TextChoices):
        INVALID = "invalid", "could not be decoded"
        FAILED = "failed", "failed, tried again later"
        DEAD = "dead", "failed, given up"
        LOST = "lost", "worker died"

    message_id = models.BigIntegerField(db_index=True)
    number = models.IntegerField()
    outcome = models.CharField(max_length=10, choices=Outcome)
    worker = models.CharField(max_length=120, blank=True)
    error_class = models.CharField(max_length=120, blank=True)
    error = models.TextField(blank=True)
    traceback = models.TextField(blank=True)
    retry_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"attempt {self.number}: {self.get_outcome_display()}"
