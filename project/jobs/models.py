"""What PostgreSQL knows of scheduled jobs: the fence per job, every run and its outcome.

Before it: `claim` decides and inserts. After it: `heartbeat` and `lease` move a run
to its end; the admin and `manage.py jobs` read it.
"""

from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q


class JobLease(models.Model):
    """One job with its arguments. Its fence only grows; the row is never deleted."""

    job_key = models.CharField("job", max_length=200, primary_key=True)
    name = models.CharField(max_length=100)
    arguments = models.JSONField(default=dict, blank=True)
    fence = models.BigIntegerField(
        default=0, help_text="Grows with every run; a write with an older one fails."
    )
    paused = models.BooleanField(
        default=False, help_text="Scheduled runs are skipped; Run now still works."
    )

    class Meta:
        verbose_name = "job"
        verbose_name_plural = "jobs"
        ordering = ["job_key"]
        permissions = [
            ("run_job", "Can run a job now"),
            ("pause_job", "Can pause a job"),
        ]

    def __str__(self) -> str:
        return self.job_key


class State(models.TextChoices):
    """Where a run is, or how it ended. The last five never started: attempt 0."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    INTERRUPTED = "interrupted", "interrupted"
    LOST = "lost", "lost its lease"
    STALLED = "stalled", "stalled"
    ABANDONED = "abandoned", "abandoned"
    SKIPPED = "skipped", "skipped"
    MISSED = "missed", "missed"
    EXPIRED = "expired", "expired"
    STORE_DOWN = "store_down", "Redis was down"
    COALESCED = "coalesced", "coalesced"


class Trigger(models.TextChoices):
    SCHEDULE = "schedule", "schedule"
    MANUAL = "manual", "run now"
    CATCHUP = "catchup", "catch-up"


class JobRun(models.Model):
    """One attempt at one tick of a job, or (attempt 0) why a tick never started."""

    job_key = models.CharField("job", max_length=200)
    tick = models.DateTimeField(help_text="The instant the schedule named.")
    attempt = models.PositiveSmallIntegerField(default=0)
    fence = models.BigIntegerField(default=0)
    state = models.CharField(max_length=12, choices=State.choices)
    trigger = models.CharField(max_length=8, choices=Trigger.choices)
    holder = models.CharField(
        max_length=200, blank=True, default="", help_text="host / process / task"
    )
    token_hash = models.CharField(max_length=64, blank=True, default="")
    ttl_seconds = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    counts = models.JSONField(default=dict, blank=True)
    reason = models.TextField(blank=True, default="")

    class Meta:
        verbose_name = "job run"
        verbose_name_plural = "job runs"
        ordering = ["-tick", "-attempt"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["job_key", "tick", "attempt"], name="jobs_run_once_per_attempt"
            ),
            models.UniqueConstraint(
                fields=["job_key"],
                condition=Q(state=State.RUNNING),
                name="jobs_one_running_per_job",
            ),
            models.UniqueConstraint(
                fields=["job_key"],
                condition=Q(state=State.QUEUED),
                name="jobs_one_queued_per_job",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["-tick", "-attempt"], name="jobs_run_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.job_key} at {self.tick:%Y-%m-%d %H:%M:%S} UTC"

    def is_stale(self, now: datetime) -> bool:
        """Running without a heartbeat for a whole ttl; `now` is the database's clock."""
        if self.state != State.RUNNING or self.heartbeat_at is None:
            return False
        return now - self.heartbeat_at > timedelta(seconds=self.ttl_seconds)

    @property
    def duration(self) -> timedelta | None:
        """Time from start to end; None while it runs and where it never ran."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at
