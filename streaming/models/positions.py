"""Where streaming stands in Kafka: subscription, incarnation, cursor; and its lanes.

Before it: nothing. After it: `cursors` and `lanes`, the writers; `inbox` moves a cursor.
"""

from typing import ClassVar

from django.db import connection, models
from django.db.models.functions import Now

LANES = 1024


class SubscriptionManager(models.Manager["Subscription"]):
    def ensure(self, topic: str, group: str, **defaults: object) -> "Subscription":
        """The subscription of this topic and group, made with its lanes if missing."""
        found, _ = self.get_or_create(topic=topic, group=group, defaults=defaults)
        found.ensure_lanes()
        return found


class Subscription(models.Model):
    """One topic read by one consumer group."""

    class Ordering(models.TextChoices):
        KEY = "key", "Key: messages of one key, one after another"
        PARTITION = "partition", "Partition: everything of one partition in order"
        NONE = "none", "None: any order"

    class Start(models.TextChoices):
        EARLIEST = "earliest", "Earliest: everything the topic still has"
        LATEST = "latest", "Latest: only what comes from now on"

    topic = models.CharField(max_length=249)
    group = models.CharField("consumer group", max_length=200)
    ordering = models.CharField(
        max_length=10, choices=Ordering, default=Ordering.KEY, db_default=Ordering.KEY
    )
    start = models.CharField(
        max_length=10,
        choices=Start,
        default=Start.EARLIEST,
        help_text="Counts for the first start only.",
    )
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[SubscriptionManager] = SubscriptionManager()

    class Meta:
        ordering = ["topic"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["topic", "group"], name="subscription_topic_group"
            )
        ]

    def __str__(self) -> str:
        return self.topic

    def ensure_lanes(self) -> None:
        """The 1,024 lanes of this subscription; lane ids are computed, never looked up."""
        with connection.cursor() as sql:
            sql.execute(
                "INSERT INTO streaming_lane (id, subscription_id, number)"
                " SELECT %s * %s + n, %s, n FROM generate_series(0, %s - 1) n"
                " ON CONFLICT DO NOTHING",
                [self.pk, LANES, self.pk, LANES],
            )


class TopicIncarnation(models.Model):
    """One life of a topic: a topic made again under its old name is another one."""

    subscription = models.ForeignKey(
        Subscription, on_delete=models.PROTECT, related_name="incarnations"
    )
    topic_uuid = models.UUIDField("topic UUID")
    policy_partitions = models.PositiveIntegerField(
        default=0,
        help_text="Partitions to which the subscription's start applies: those the topic "
        "had at the first start; 0 for every later incarnation.",
    )
    first_seen_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["subscription", "topic_uuid"], name="incarnation_topic_uuid"
            )
        ]

    def __str__(self) -> str:
        return f"{self.subscription} ({str(self.topic_uuid)[:8]})"


class Cursor(models.Model):
    """The next offset of a partition. Its row lock is the fence between two owners."""

    incarnation = models.ForeignKey(
        TopicIncarnation, on_delete=models.PROTECT, related_name="cursors"
    )
    partition = models.PositiveIntegerField()
    next_offset = models.BigIntegerField()
    moved_at = models.DateTimeField(db_default=Now())
    log_end = models.BigIntegerField("end of the log", null=True)
    sampled_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "partition"
        ordering = ["-incarnation", "partition"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["incarnation", "partition"], name="cursor_partition"
            )
        ]

    def __str__(self) -> str:
        return f"{self.incarnation.subscription}/{self.partition}"


class Lane(models.Model):
    """A share of a subscription's keys that one worker at a time may work on.

    id = subscription id * 1024 + number. `lease_until` is null when released; a
    past time means that the holder died.
    """

    id = models.IntegerField(primary_key=True)
    subscription = models.ForeignKey(
        Subscription, on_delete=models.CASCADE, related_name="lanes"
    )
    number = models.SmallIntegerField()
    epoch = models.BigIntegerField(default=0, db_default=0)
    lease_until = models.DateTimeField(null=True)
    holder = models.CharField(max_length=120, blank=True, db_default="")

    def __str__(self) -> str:
        return f"lane {self.number} of {self.subscription}"


class BlockedKey(models.Model):
    """A key in back-off: claims step around it until then."""

    lane = models.ForeignKey(Lane, on_delete=models.CASCADE)
    key_hash = models.BigIntegerField()
    until = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["lane", "key_hash"], name="blockedkey_lane_key"
            )
        ]

    def __str__(self) -> str:
        return f"{self.key_hash} until {self.until:%H:%M:%S}"
