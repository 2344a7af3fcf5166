"""Real sample data that lies beside the project, never inside it."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def sample(name: str) -> Path:
    """The path of one sample; skips the test where the folder is absent."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no sample data at {path}")
    return path
