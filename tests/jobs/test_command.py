"""`manage.py jobs`: the same as the admin, with exit codes for scripts."""

import json

import pytest
from django.core.management import CommandError, call_command

from project.jobs.lease import hold
from project.jobs.models import JobRun, State
from project.jobs.schedules import ensure_interval
from project.jobs.scheduling import scheduled_job

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "test-command:source_id=3"


@scheduled_job("test-command", ttl=5)
def command_job(lease, source_id: int) -> None:
    lease.progress(seen=7)


@pytest.fixture(autouse=True)
def _scheduled():
    ensure_interval("every hour", "tests.command_job", 3600, {"source_id": 3})


def jobs(capsys, *arguments: str) -> str:
    call_command("jobs", *arguments)
    return str(capsys.readouterr().out)


def test_status_lists_a_job_that_never_ran_and_one_that_runs(capsys):
    assert "every 3600 seconds; never ran" in jobs(capsys, "status")
    with hold("test-command", {"source_id": 3}, ttl=5) as lease:
        assert f"running on {lease.run.holder}" in jobs(capsys, "status")
    assert "last succeeded at" in jobs(capsys, "status")


def test_status_as_json_is_one_document_with_its_schema(capsys):
    command_job(source_id=3)
    document = json.loads(jobs(capsys, "status", "--format", "json"))
    assert document["schema"] == "drover.jobs/1"
    [job] = [job for job in document["jobs"] if job["job"] == KEY]
    assert (job["running"], job["fence"]) == (None, 1)
    assert job["last"]["counts"] == {"seen": 7}
    assert job["next_tick"].endswith("+00:00")


def test_run_queues_one_run(capsys):
    assert "is queued" in jobs(capsys, "run", KEY)
    assert JobRun.objects.get().state == State.QUEUED


def test_run_of_a_held_job_exits_75_and_says_who_has_it(capsys):
    with (
        hold("test-command", {"source_id": 3}, ttl=5) as lease,
        pytest.raises(CommandError, match="running already") as refused,
    ):
        jobs(capsys, "run", KEY, "--format", "json")
    assert refused.value.returncode == 75
    assert lease.run.holder in json.loads(capsys.readouterr().out)["error"]


def test_run_of_an_unknown_job_fails(capsys):
    with pytest.raises(CommandError, match="No job is called") as refused:
        jobs(capsys, "run", "nonsense")
    assert refused.value.returncode == 1
