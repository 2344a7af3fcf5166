"""Rules for the whole tree that no linter knows."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE = 300
SAYS_NOTHING = {"utils", "helpers", "common", "services", "misc"}


def tracked() -> list[Path]:
    """The files git knows; the tests below are skipped in an unpacked archive."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [ROOT / name for name in listing if (ROOT / name).is_file()]


def test_no_file_is_longer_than_300_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if path.suffix in {".py", ".js", ".mjs", ".css", ".html"}
        and "migrations" not in path.parts
        and (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert not long


def test_every_module_is_named_after_its_concept() -> None:
    vague = [p for p in tracked() if p.stem in SAYS_NOTHING]
    assert not vague


def test_lock_files_name_no_registry() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://|--index-url|--find-links", text), name
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text()
