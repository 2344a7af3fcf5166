"""Finds a Chromium for the browser tests, and says how to get one.

Before it: the environment and the PATH. After it: the fixtures of `conftest.py`.
"""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Playwright

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
# WebGL without a graphics card.
ARGUMENTS = [
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--no-sandbox",
    "--disable-dev-shm-usage",
]
ADVICE = (
    "no Chromium: set CHROMIUM_PATH, install your system's chromium, "
    "or run `.venv/bin/playwright install chromium`"
)


def installed(playwright: Playwright) -> str:
    """Path of the first Chromium of CHROMIUM_PATH, the PATH or Playwright, or ""."""
    if path := os.environ.get("CHROMIUM_PATH"):
        return path
    on_path = (shutil.which(name) for name in NAMES)
    for candidate in (*on_path, playwright.chromium.executable_path):
        if candidate and Path(candidate).is_file():
            return candidate
    return ""


def find(playwright: Playwright) -> str:
    """Path of the browser; without one the test is skipped, or fails where CI is set."""
    if path := installed(playwright):
        return path
    if os.environ.get("CI"):
        pytest.fail(ADVICE)
    pytest.skip(ADVICE)
