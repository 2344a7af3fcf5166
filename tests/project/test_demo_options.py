"""The demo's command line and its watch over the services: bad words, dead servers."""

import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project import embedded
from project.demo import options
from project.demo.processes import Supervisor


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (options.port, "0"),
        (options.port, "70000"),
        (options.port, "-3"),
        (options.port, "http"),
        (options.seconds, "0"),
        (options.seconds, "-1"),
        (options.seconds, "nan"),
        (options.seconds, "inf"),
        (options.new_file, "/nonexistent/up.json"),
        (options.new_file, "/"),
    ],
)
def test_what_cannot_be_meant_is_refused(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read(text)


def test_what_is_meant_is_taken(tmp_path: Path) -> None:
    assert options.port("8080") == 8080
    assert options.seconds("2.5") == 2.5
    assert options.new_file(f"{tmp_path}/up.json") == tmp_path / "up.json"


def test_a_service_that_dies_is_seen_once_like_any_other_process(
    tmp_path: Path,
) -> None:
    service = embedded.Valkey(tmp_path / "valkey")
    service.start()
    try:
        supervisor = Supervisor(tmp_path, tmp_path, {}, [service])
        [(program, process)] = supervisor.everything().items()
        assert (program.role, supervisor.look()) == ("service", {})
        process.kill()
        process.wait(5)
        assert supervisor.look() == {program: -9}
        assert supervisor.look() == {}
        assert program in supervisor.died
        assert supervisor.log_end(program)
    finally:
        service.stop()


def test_a_bad_option_is_one_line_and_exit_code_2() -> None:
    result = subprocess.run(
        [sys.executable, "manage.py", "demo", "--port=70000"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 2
    assert "no port from 1 to 65535" in result.stderr
    assert "Traceback" not in result.stderr
