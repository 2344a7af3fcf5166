"""/healthz, /readyz and /metrics as a load balancer or Prometheus asks for them."""

import pytest
import redis
from django.test import Client
from pytest_django import Settings

from project.redis import sync_client


def test_healthz_needs_no_service(client: Client, settings: Settings) -> None:
    settings.REDIS_URLS = {**settings.REDIS_URLS, "jobs": "redis://127.0.0.1:1"}
    response = client.get("/healthz")
    assert response.json() == {"status": "ok"}


@pytest.mark.django_db
def test_readyz_names_every_part(client: Client) -> None:
    report = client.get("/readyz").json()
    assert report == {
        "status": "ok",
        "database": "ok",
        "migrations": "ok",
        "redis": "ok",
        "kafka": "ok",
    }


@pytest.mark.django_db
def test_readyz_says_which_service_is_down(client: Client, settings: Settings) -> None:
    settings.REDIS_URLS = {**settings.REDIS_URLS, "jobs": "redis://127.0.0.1:1"}
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["redis"].startswith("REDIS_URL is not reachable:")


@pytest.mark.django_db
def test_without_kafka_it_is_degraded_but_ready(
    client: Client, settings: Settings
) -> None:
    settings.KAFKA_BOOTSTRAP_SERVERS = ""
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json()["status"] == "degraded"


def test_metrics_are_in_the_text_format(client: Client) -> None:
    response = client.get("/metrics")
    assert response["Content-Type"].startswith("text/plain")
    assert b"# TYPE" in response.content


def test_a_redis_that_is_away_raises_within_its_timeout(
    settings: Settings,
) -> None:
    settings.REDIS_URLS = {**settings.REDIS_URLS, "jobs": "redis://127.0.0.1:1"}
    with sync_client("jobs") as client, pytest.raises(redis.ConnectionError):
        client.ping()
