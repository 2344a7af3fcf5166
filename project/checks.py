"""System checks across settings: what cannot work is refused with an id and a hint.

Before it: `project.settings`. Management commands run the checks by themselves; the
processes that Django does not check (web, beat) call `refuse_bad_settings`.
"""

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register, run_checks
from django.core.exceptions import ImproperlyConfigured

TAG = "drover"
UNSET_SECRET_KEY = "insecure-unset-secret-key"  # noqa: S105 (it is none)


def refuse_bad_settings() -> None:
    """Raise ImproperlyConfigured that lists every error of the settings."""
    errors = [m for m in run_checks(tags=[TAG]) if m.is_serious()]
    if errors:
        raise ImproperlyConfigured("\n".join(str(error) for error in errors))


@register(TAG)
def check_environment(**_: Any) -> list[CheckMessage]:
    return [
        Error(
            f"{problem.variable} is {problem.value!r}.",
            hint=f"Set {problem.variable} to {problem.expected}, or leave it out.",
            id="drover.E010",
        )
        for problem in settings.ENVIRONMENT_PROBLEMS
    ]


@register(TAG)
def check_secret_key(**_: Any) -> list[CheckMessage]:
    if settings.DEBUG or settings.SECRET_KEY != UNSET_SECRET_KEY:
        return []
    return [
        Error(
            "SECRET_KEY is not set.",
            hint="Set SECRET_KEY to 50 random characters, or DEBUG=true on your own "
            "machine.",
            id="drover.E001",
        )
    ]


@register(TAG)
def check_addresses(**_: Any) -> list[CheckMessage]:
    """Each service has an address: from the environment or from a running demo."""
    noted = {problem.variable for problem in settings.ENVIRONMENT_PROBLEMS}
    messages: list[CheckMessage] = []
    for number, variable, example in (
        (2, "DATABASE_URL", "postgres://user:password@host:5432/drover"),
        (3, "REDIS_URL", "redis://:password@host:6379"),
    ):
        if not getattr(settings, variable) and variable not in noted:
            hint = f"Set {variable} ({example}), or start `make demo` in this folder."
            messages.append(
                Error(f"{variable} is not set.", hint=hint, id=f"drover.E00{number}")
            )
    if not settings.KAFKA_BOOTSTRAP_SERVERS:
        messages.append(
            checks.Warning(
                "KAFKA_BOOTSTRAP_SERVERS is not set: no events will be consumed.",
                hint="Set it to host:port[,host:port…]; imports and tracking run without.",
                id="drover.W004",
            )
        )
    return messages


@register(TAG)
def check_hosts(**_: Any) -> list[CheckMessage]:
    if settings.DEBUG or settings.ALLOWED_HOSTS:
        return []
    return [
        Error(
            "ALLOWED_HOSTS is empty while DEBUG is off: every request would be refused.",
            hint="Set ALLOWED_HOSTS to the names under which people reach the site.",
            id="drover.E005",
        )
    ]
