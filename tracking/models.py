"""Who sends, who may look, and what was sent.

Fixes reach `Position` through `tracking.history`; nothing else writes it.
"""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q


class Fleet(models.Model):
    """Devices that are watched together; the unit of permission."""

    name = models.CharField(max_length=100, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """What sends fixes. The columns from `active` on say where it was last."""

    class Kind(models.TextChoices):
        VEHICLE = "vehicle", "Vehicle"
        PHONE = "phone", "Phone"
        BICYCLE = "bicycle", "Bicycle"
        VESSEL = "vessel", "Vessel"
        OTHER = "other", "Other"

    name = models.CharField(max_length=100)
    fleet = models.ForeignKey(Fleet, models.PROTECT, related_name="devices")
    kind = models.CharField(max_length=20, choices=Kind.choices, default=Kind.VEHICLE)
    created_at = models.DateTimeField(auto_now_add=True)
    active = models.BooleanField(
        default=False, help_text="Tracking now: started, not stopped, not lost."
    )
    tracking_since = models.DateTimeField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True)
    last_fixed_at = models.DateTimeField(null=True, blank=True)
    last_received_at = models.DateTimeField(null=True, blank=True)
    last_latitude = models.FloatField(null=True, blank=True)
    last_longitude = models.FloatField(null=True, blank=True)
    last_accuracy_m = models.FloatField(null=True, blank=True)
    last_battery_pct = models.FloatField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["fleet", "name"], name="device_name")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        """never | active | stopped | lost, from the database alone."""
        if self.active:
            return "active"
        if self.stopped_at is not None:
            return "stopped"
        return "never" if self.last_fixed_at is None else "lost"


class DeviceToken(models.Model):
    """A secret of one device. Only its SHA-256 is kept; it is shown once."""

    device = models.ForeignKey(Device, models.CASCADE, related_name="tokens")
    prefix = models.CharField(max_length=12, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.prefix}…"


class Grant(models.Model):
    """Lets a user see one fleet or one device, until it expires."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="tracking_grants"
    )
    fleet = models.ForeignKey(Fleet, models.CASCADE, null=True, blank=True)
    device = models.ForeignKey(Device, models.CASCADE, null=True, blank=True)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="Empty: until it is taken back."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(fleet__isnull=True) ^ Q(device__isnull=True),
                name="grant_fleet_or_device",
                violation_error_message="Choose a fleet or a device, not both.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} sees {self.fleet or self.device}"


class Position(models.Model):
    """One fix as history: append-only, unique by its content."""

    class Reason(models.TextChoices):
        NONE = "", "shown live"
        NOT_MOVED = "not_moved", "not moved"
        LATE = "late", "late"
        ZERO = "zero", "null island"
        OLD = "old", "older than a day"
        CLOCK = "clock", "clock ahead, shown at its arrival"
        FUTURE = "future", "more than a day ahead, kept at its arrival"

    device = models.ForeignKey(Device, models.CASCADE, related_name="positions")
    fixed_at = models.DateTimeField(help_text="The device's own time of the fix.")
    received_at = models.DateTimeField()
    latitude = models.FloatField()
    longitude = models.FloatField()
    accuracy_m = models.FloatField(null=True)
    speed_mps = models.FloatField(null=True)
    course_deg = models.FloatField(null=True)
    altitude_m = models.FloatField(null=True)
    battery_pct = models.FloatField(null=True)
    reason = models.CharField(
        max_length=20,
        blank=True,
        choices=Reason.choices,
        help_text="Why the live map did not take it as it was; empty when it did.",
    )
    door = models.CharField(max_length=20)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["device", "fixed_at", "latitude", "longitude"],
                name="position_content",
            )
        ]

    def __str__(self) -> str:
        return f"{self.latitude:.5f}, {self.longitude:.5f} at {self.fixed_at:%F %T}"
