"""The canonical key of a job with its arguments: the same however they were given.

Before it: the decorator or `lease.hold`. After it: the Redis lock, `JobLease`, `JobRun`.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MAX_LENGTH = 200


def job_key(name: str, arguments: Mapping[str, Any]) -> str:
    """`name`, or `name:a=1,b="x"` with the arguments sorted by name.

    Values are JSON, so that 3 and "3" differ. A key that would be longer than 200
    characters ends in a hash of its arguments. Raises TypeError where a value is no JSON.
    """
    if not arguments:
        return name
    pairs = (
        f"{argument}={_value(arguments[argument])}" for argument in sorted(arguments)
    )
    key = f"{name}:{','.join(pairs)}"
    if len(key) <= MAX_LENGTH:
        return key
    return f"{name}:{hashlib.sha256(key.encode()).hexdigest()}"


def _value(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def bind_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The job's arguments by name, defaults filled in, without its first (the lease).

    Raises TypeError where they do not fit the function's signature.
    """
    bound = inspect.signature(function).bind(None, *args, **kwargs)
    bound.apply_defaults()
    named = dict(bound.arguments)
    named.pop(next(iter(named)))
    return named
