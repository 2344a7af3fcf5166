"""Every process logs at LOG_LEVEL and each line once, Celery's processes too."""

import logging

import pytest

from tests.processes import Processes


@pytest.mark.parametrize("name", ["django.request", "django.server", "celery", "x"])
def test_each_line_is_written_once(name: str) -> None:
    logger: logging.Logger | None = logging.getLogger(name)
    writers = []
    while logger:
        writers += [h for h in logger.handlers if type(h) is logging.StreamHandler]
        logger = logger.parent if logger.propagate else None
    assert len(writers) == 1


@pytest.mark.journey
def test_a_worker_and_a_beat_log_at_the_level_of_the_environment(
    processes: Processes,
) -> None:
    processes.celery("worker", "--concurrency=1", "--queues=none", LOG_LEVEL="INFO")
    processes.celery("beat", "--pidfile=", LOG_LEVEL="INFO")
    processes.wait_for(lambda: "ready" in processes.log("worker"), what="the worker")
    processes.wait_for(
        lambda: "beat: Starting" in processes.log("beat"), what="the beat's first line"
    )
    assert "[info" in processes.log("worker")
