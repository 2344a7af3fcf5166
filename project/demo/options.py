"""What `manage.py demo` takes on its command line: refused before anything starts."""

import math
import os
from argparse import ArgumentTypeError
from pathlib import Path


def port(text: str) -> int:
    """A TCP port. Raises ArgumentTypeError, which becomes a line and exit code 2."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise ArgumentTypeError(f"{text!r} is no port from 1 to 65535")
    return int(text)


def seconds(text: str) -> float:
    """A duration above zero. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def new_file(text: str) -> Path:
    """A file in a folder that is there and can be written. Raises ArgumentTypeError."""
    path = Path(text).absolute()
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ArgumentTypeError(f"{path} cannot be written")
    return path
