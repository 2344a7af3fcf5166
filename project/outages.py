"""A service that is away, said in one line: the variable, the address, the reason.

Before it: an error of PostgreSQL or Redis that went through to a door. After it: the
line that an operator reads.
"""

import redis
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from kombu.exceptions import OperationalError as BrokerDown

# PostgreSQL's classes of "no session": connection, shutdown and start-up, too many.
_SESSION_CLASSES = ("08", "57P", "53300")


def describe(error: BaseException) -> str:
    """One line for a service that does not answer; empty for any other error."""
    if isinstance(error, OperationalError | InterfaceError):
        return _database(error)
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | BrokerDown):
        return f"REDIS_URL ({_redis_address()}) does not answer: {_first_line(error)}"
    return ""


def _database(error: Exception) -> str:
    state = getattr(error.__cause__, "sqlstate", None)
    if state is not None and not state.startswith(_SESSION_CLASSES):
        return ""
    address = database_address()
    return f"DATABASE_URL ({address}) does not answer: {_first_line(error)}"


def database_address() -> str:
    """host:port/name, without user and password."""
    its = connection.settings_dict
    host = its["HOST"] or its["OPTIONS"].get("host") or "local socket"
    port = f":{its['PORT']}" if its["PORT"] else ""
    return f"{host}{port}/{its['NAME']}"


def _redis_address() -> str:
    return settings.REDIS_URL.rpartition("@")[2].removeprefix("redis://") or "not set"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
