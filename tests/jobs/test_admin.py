"""The pages of jobs, runs and schedules: what they show and who may press what."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from project.jobs.lease import hold
from project.jobs.models import JobLease, JobRun, State
from project.jobs.schedules import ensure_interval
from project.jobs.scheduling import scheduled_job

pytestmark = pytest.mark.django_db(transaction=True)

JOBS = reverse("admin:jobs_joblease_changelist")
RUNS = reverse("admin:jobs_jobrun_changelist")
SCHEDULES = reverse("admin:django_celery_beat_periodictask_changelist")
KEY = "test-admin:source_id=3"


@scheduled_job("test-admin", ttl=5)
def admin_job(lease, source_id: int) -> None:
    lease.progress(seen=1200)


def staff(client, *permissions: str):
    user = User.objects.create_user("staff", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


@pytest.fixture
def schedule():
    return ensure_interval(
        "every hour", "tests.admin_job", 3600, kwargs={"source_id": 3}
    )


def press(client, page: str, action: str, *keys: object):
    data = {"action": action, "_selected_action": list(keys)}
    return client.post(page, data, follow=True).content.decode()


def test_a_job_is_listed_with_its_schedule_before_it_ever_ran(admin_client, schedule):
    page = admin_client.get(JOBS).content.decode()
    assert KEY in page
    assert "every 3600 seconds" in page
    assert "never ran" in page
    assert "waiting" in page


def test_the_page_of_jobs_says_what_ran_last_and_who_holds_it_now(
    admin_client, schedule
):
    admin_job(source_id=3)
    assert "✓ succeeded" in admin_client.get(JOBS).content.decode()
    with hold("test-admin", {"source_id": 3}, ttl=5) as lease:
        page = admin_client.get(JOBS).content.decode()
        assert "▶ running" in page
        assert lease.run.holder in page


def test_the_page_of_jobs_asks_no_more_queries_for_more_jobs(
    admin_client, django_assert_max_num_queries
):
    for source_id in range(20):
        admin_job(source_id=source_id)
    with django_assert_max_num_queries(16):
        admin_client.get(JOBS)


def test_a_job_page_lists_its_newest_runs_with_counts(admin_client, schedule):
    admin_job(source_id=3)
    url = reverse("admin:jobs_joblease_change", args=["test-admin:source_5Fid=3"])
    page = admin_client.get(url, follow=True).content.decode()
    assert "1,200 seen" in page
    assert "Run now" in page


def test_runs_are_a_record_that_can_be_filtered_and_not_changed(admin_client):
    admin_job(source_id=3)
    run = JobRun.objects.get()
    page = admin_client.get(f"{RUNS}?state__exact=succeeded&q=test-admin")
    assert KEY in page.content.decode()
    change = reverse("admin:jobs_jobrun_change", args=[run.pk])
    assert admin_client.get(change).status_code == 200
    assert admin_client.post(change, {"state": "failed"}).status_code == 403
    assert admin_client.get(reverse("admin:jobs_jobrun_add")).status_code == 403


def test_run_now_queues_one_run_and_a_second_press_finds_it(admin_client, schedule):
    assert "is queued" in press(admin_client, JOBS, "run_now", KEY)
    assert "is queued" in press(admin_client, JOBS, "run_now", KEY)
    assert JobRun.objects.get().state == State.QUEUED


def test_run_now_during_a_run_names_the_holder_and_queues_nothing(
    admin_client, schedule
):
    with hold("test-admin", {"source_id": 3}, ttl=5) as lease:
        page = press(admin_client, JOBS, "run_now", KEY)
    assert f"is running already: {lease.run.holder}" in page
    assert not JobRun.objects.filter(state=State.QUEUED).exists()


def test_the_button_on_a_job_page_takes_only_a_post_of_who_may_run_it(client, schedule):
    url = reverse("admin:jobs_joblease_run", args=["test-admin:source_5Fid=3"])
    staff(client, "view_joblease")
    assert client.post(url).status_code == 403
    client.logout()
    User.objects.all().delete()
    staff(client, "view_joblease", "run_job")
    assert client.get(url).status_code == 405
    assert client.post(url, follow=True).status_code == 200
    assert JobRun.objects.get().state == State.QUEUED


def test_pause_and_resume_need_their_permission_and_are_logged(client, schedule):
    staff(client, "view_joblease", "pause_job")
    assert "is paused" in press(client, JOBS, "pause", KEY)
    assert JobLease.objects.get(pk=KEY).paused
    assert "is resumed" in press(client, JOBS, "resume", KEY)
    assert not JobLease.objects.get(pk=KEY).paused
    assert User.objects.get().logentry_set.count() == 2
    assert "is queued" not in press(client, JOBS, "run_now", KEY)


@pytest.mark.parametrize("action", ["run_tasks", "enable_tasks", "disable_tasks"])
def test_who_may_only_view_a_schedule_can_neither_run_nor_switch_it(
    client, schedule, action
):
    staff(client, "view_periodictask")
    enabled = action != "enable_tasks"
    PeriodicTask.objects.filter(pk=schedule.pk).update(enabled=enabled)
    press(client, SCHEDULES, action, schedule.pk)
    schedule.refresh_from_db()
    assert schedule.enabled is enabled
    assert not JobRun.objects.exists()


def test_switching_a_schedule_off_and_on_keeps_its_history_and_waits_for_its_tick(
    client, schedule
):
    staff(client, "view_periodictask", "change_periodictask")
    long_ago = timezone.now() - timedelta(days=2)
    PeriodicTask.objects.filter(pk=schedule.pk).update(last_run_at=long_ago)
    press(client, SCHEDULES, "disable_tasks", schedule.pk)
    schedule.refresh_from_db()
    assert (schedule.enabled, schedule.last_run_at) == (False, long_ago)
    press(client, SCHEDULES, "enable_tasks", schedule.pk)
    schedule.refresh_from_db()
    assert schedule.enabled
    assert timezone.now() - schedule.last_run_at < timedelta(minutes=1)


def test_running_a_schedule_by_hand_queues_its_job_once(client, schedule):
    staff(client, "view_periodictask", "change_periodictask")
    assert "is queued" in press(client, SCHEDULES, "run_tasks", schedule.pk)
    run = JobRun.objects.get()
    assert (run.job_key, run.trigger) == (KEY, "manual")


def test_a_schedule_is_edited_on_a_page_without_what_beat_refuses(
    admin_client, schedule
):
    url = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])
    page = admin_client.get(url).content.decode()
    assert 'name="interval"' in page
    assert 'name="solar"' not in page
    assert "every 3600 seconds" in admin_client.get(SCHEDULES).content.decode()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("kwargs", '{"source_id": "\\u0000"}', id="nul"),
        pytest.param("kwargs", '{"source_id": "\\ud800"}', id="half a letter"),
        pytest.param("kwargs", '{"source_id": NaN}', id="nan"),
        pytest.param("kwargs", '{"a":' * 3000, id="too deep"),
        pytest.param("kwargs", "[3]", id="no object"),
        pytest.param("kwargs", '{"colour": "red"}', id="no argument of the job"),
        pytest.param("args", '"x"', id="no list"),
    ],
)
def test_a_schedule_whose_arguments_do_not_fit_is_refused(
    admin_client, schedule, field, value
):
    url = reverse("admin:django_celery_beat_periodictask_change", args=[schedule.pk])
    form = {
        "name": schedule.name,
        "task": schedule.task,
        "interval": schedule.interval_id,
        "args": "[]",
        "kwargs": schedule.kwargs,
    }
    page = admin_client.post(url, form | {field: value})
    assert page.status_code == 200
    assert field in page.context["adminform"].form.errors
    assert admin_client.post(url, form).status_code == 302
