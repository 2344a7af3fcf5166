"""The two clocks of a lease: the database's for decisions, this machine's for deadlines.

The wall clock of this machine decides nothing: it may step, and others have another.
"""

import time
from datetime import datetime

from django.db import connection

# CLOCK_MONOTONIC stands still while a machine is suspended; a lease does not.
_LOCAL_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, suspended time included where the system can tell."""
    return time.clock_gettime(_LOCAL_CLOCK)


def database_now() -> datetime:
    """The database's clock at this moment, not at the start of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
