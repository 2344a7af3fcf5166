"""System checks across settings: wrong combinations are refused with a hint."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register


@register(Tags.security)
def check_secret_key(**_: Any) -> list[CheckMessage]:
    if settings.DEBUG or settings.SECRET_KEY != "insecure-unset-secret-key":  # noqa: S105
        return []
    return [
        Error(
            "SECRET_KEY is not set.",
            hint="Set SECRET_KEY to 50 random characters, or DEBUG=true on your own machine.",
            id="drover.E001",
        )
    ]
