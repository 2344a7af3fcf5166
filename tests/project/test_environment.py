"""Environment variables: strict readers, and the checks that refuse what they noted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from project.environment import Environment

ROOT = Path(__file__).resolve().parents[2]
GOOD = {
    "DEBUG": "true",
    "DROVER_IGNORE_DEMO": "1",
    "DATABASE_URL": "postgres://drover@127.0.0.1:1/drover",
    "REDIS_URL": "redis://127.0.0.1:1",
    "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
}


@pytest.mark.parametrize(
    ("raw", "expected", "problems"),
    [
        pytest.param("", 7, 0, id="unset takes the default"),
        pytest.param("12", 12, 0, id="in range"),
        pytest.param("4", 7, 1, id="too low"),
        pytest.param("101", 7, 1, id="too high"),
        pytest.param("7.5", 7, 1, id="no whole number"),
        pytest.param("٣٣", 7, 1, id="digits of another script"),
        pytest.param("-9", 7, 1, id="negative"),
    ],
)
def test_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, raw: str, expected: int, problems: int
) -> None:
    monkeypatch.setenv("SIZE", raw)
    environment = Environment()
    assert environment.whole("SIZE", 7, 5, 100) == expected
    assert len(environment.problems) == problems


@pytest.mark.parametrize(
    ("raw", "expected", "problems"),
    [
        pytest.param("TRUE", True, 0, id="upper case"),
        pytest.param("off", False, 0, id="off"),
        pytest.param("", True, 0, id="unset"),
        pytest.param("ja", True, 1, id="neither"),
    ],
)
def test_flags(
    monkeypatch: pytest.MonkeyPatch, raw: str, expected: bool, problems: int
) -> None:
    monkeypatch.setenv("SWITCH", raw)
    environment = Environment()
    assert environment.flag("SWITCH", default=True) is expected
    assert len(environment.problems) == problems


def test_a_refused_address_does_not_show_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://user:hunter2@host/name")
    environment = Environment()
    assert not environment.url("DATABASE_URL", ["postgres"])
    (problem,) = environment.problems
    assert "hunter2" not in f"{problem}"


@pytest.mark.parametrize(
    "raw",
    ["postgres://[::1/db", "postgres://h:port/db", "postgres://h:99999/db", "h:5432"],
)
def test_an_address_that_cannot_be_read_is_a_problem_and_no_crash(
    monkeypatch: pytest.MonkeyPatch, raw: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", raw)
    environment = Environment()
    assert not environment.url("DATABASE_URL", ["postgres"])
    assert len(environment.problems) == 1


@pytest.mark.parametrize(
    ("change", "id_", "hint"),
    [
        pytest.param(
            {"DEBUG": "false"}, "drover.E001", "50 random characters", id="key"
        ),
        pytest.param({"DATABASE_URL": ""}, "drover.E002", "make demo", id="database"),
        pytest.param({"REDIS_URL": ""}, "drover.E003", "make demo", id="redis"),
        pytest.param({"DEBUG": "false"}, "drover.E005", "ALLOWED_HOSTS", id="hosts"),
        pytest.param({"DEBUG": "maybe"}, "drover.E010", "true or false", id="flag"),
        pytest.param({"TRACKING_TICK_MS": "0"}, "drover.E010", "from 50", id="range"),
        pytest.param({"LOG_LEVEL": "loud"}, "drover.E010", "WARNING", id="choice"),
        pytest.param({"MAP_STYLE_URL": "x"}, "drover.E010", "https://", id="url"),
        pytest.param({"REDIS_URL": "http://h"}, "drover.E010", "redis://", id="scheme"),
    ],
)
def test_check_refuses_bad_settings(
    change: dict[str, str], id_: str, hint: str
) -> None:
    result = check(change)
    assert result.returncode == 1
    assert id_ in result.stderr
    assert hint in result.stderr


def test_check_accepts_good_settings() -> None:
    result = check({})
    assert result.returncode == 0, result.stderr


def test_an_unreachable_database_is_one_line_with_variable_and_address() -> None:
    url = "postgres://drover:hunter2@127.0.0.1:1/drover"
    command = [sys.executable, "manage.py", "import_products", "shop"]
    result = run(command, {"DATABASE_URL": url})
    assert result.returncode == 1
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("DATABASE_URL (127.0.0.1:1/drover) does not answer:")
    assert "Traceback" not in result.stderr
    assert "hunter2" not in result.stderr


def test_the_web_process_refuses_bad_settings_too() -> None:
    result = run([sys.executable, "-c", "import project.asgi"], {"LOG_LEVEL": "loud"})
    assert result.returncode == 1
    assert "drover.E010" in result.stderr


def check(change: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "manage.py", "check"], change)


def run(command: list[str], change: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **GOOD, **change}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
