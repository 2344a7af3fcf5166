"""The pages' pure modules under Node's own test runner."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLDEST_NODE = 20


def node() -> str:
    """Path of a Node that has its test runner; skips without one."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("no node on the PATH (20 or newer): install Node.js")
    version = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    ).stdout
    if int(re.findall(r"\d+", version)[0]) < OLDEST_NODE:
        pytest.skip(f"node {version.strip()} is older than {OLDEST_NODE}")
    return path


def test_the_pure_modules_of_both_pages() -> None:
    files = sorted(str(p) for p in (ROOT / "tests/browser/unit").glob("*.test.mjs"))
    run = subprocess.run(
        [node(), "--test", *files],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
