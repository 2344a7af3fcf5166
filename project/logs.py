"""How every process logs: readable lines in development, JSON in production."""

import logging.config
import re
from typing import Any

import structlog

SHARED = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


# A device token is a secret that some phone apps can only send in the path.
TOKEN = re.compile(r"(dr_[\w-]{5})[\w-]{12,}")


def mask_tokens(_logger: Any, _method: str, line: str) -> str:
    """The last processor: a token keeps the start by which the admin lists it."""
    return TOKEN.sub(r"\1…", line)


def configure(options: dict[str, Any]) -> None:
    """`LOGGING_CONFIG`: `options` has `level` (a name) and `format` (console | json)."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if options["format"] == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "structured": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "foreign_pre_chain": SHARED,
                    "processors": [
                        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                        structlog.processors.format_exc_info,
                        renderer,
                        mask_tokens,
                    ],
                }
            },
            "handlers": {
                "stderr": {"class": "logging.StreamHandler", "formatter": "structured"}
            },
            "root": {"handlers": ["stderr"], "level": options["level"]},
            "loggers": {
                # Django's own handlers would print each line a second time.
                "django": {"handlers": [], "level": "INFO", "propagate": True},
                "django.server": {"handlers": [], "propagate": True},
                # One line per request or task is noise beside our own events.
                "celery.worker.strategy": {"level": "WARNING"},
                "celery.app.trace": {"level": "WARNING"},
                "httpx2": {"level": "WARNING"},
                "httpcore2": {"level": "WARNING"},
                "uvicorn.access": {"level": "WARNING", "propagate": True},
            },
        }
    )
