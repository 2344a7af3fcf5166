"""Tries to get a Chromium for the browser tests; without one they are skipped.

Run by `make test`. Debian's package where this is root, else Playwright's download;
a failed try is remembered, so that the next `make test` does not wait for it again.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.chromium import ADVICE, installed

FAILED = Path(__file__).resolve().parents[2] / ".venv" / ".no-chromium"
TIMEOUT_S = 600


def main() -> None:
    with sync_playwright() as playwright:
        found = installed(playwright)
    if found or FAILED.exists():
        return
    sys.stderr.write("Browser tests: looking for a Chromium to install …\n")
    if not any(_succeeds(command) for command in _ways()):
        sys.stderr.write(f"Browser tests will be skipped: {ADVICE}\n")
        FAILED.touch()


def _ways() -> list[list[str]]:
    ways = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        script = "apt-get update -qq && apt-get install -y -qq chromium"
        ways.insert(0, ["sh", "-c", script])
    return ways


def _succeeds(command: list[str]) -> bool:
    try:
        result = subprocess.run(
            command,
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


if __name__ == "__main__":
    main()
