#!/usr/bin/env python
"""Drover's command line: every management command starts here."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        from project.outages import describe

        line = describe(error)
        if not line or "--traceback" in sys.argv:
            raise
        sys.exit(line)


if __name__ == "__main__":
    main()
