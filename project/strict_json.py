"""JSON that people type into forms: only what PostgreSQL and Python can both keep.

Before it: the text of a form. After it: a value, or the reason under its field.
"""

import json
from typing import Any, NoReturn

from django import forms
from django.forms.fields import InvalidJSONInput

MAX_DEPTH = 100


def loads(text: str) -> Any:
    """The value. Raises ValueError with the reason for anything that is no strict JSON."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        # Not left to the interpreter's recursion limit, which differs by version.
        if _is_deep(value):
            raise ValueError("It is nested too deep.")
        # 1e999 is read as infinity; written out, it is refused as well.
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError as error:
        raise ValueError("It is nested too deep.") from error
    if not _is_storable(written):
        raise ValueError("It holds a NUL or half of a character.")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for part in level
            if isinstance(part, dict | list)
            for inner in (part.values() if isinstance(part, dict) else part)
        ]
    return bool(level)


def _is_storable(written: str) -> bool:
    """PostgreSQL refuses both, though they are legal JSON."""
    escapes = written.replace("\\\\", "")
    return r"\u0000" not in escapes and not any(
        "\ud800" <= c <= "\udfff" for c in written
    )


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number.")


class StrictJSONField(forms.JSONField):
    """Django's field, but what could not be stored is an error of the form."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value.strip():
            try:
                loads(value)
            except ValueError as error:
                raise forms.ValidationError(f"No usable JSON: {error}") from error
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """The text as it was typed, where it cannot be read: the form is shown again."""
        try:
            loads(data or "null")
        except ValueError:
            return InvalidJSONInput(data)
        return super().bound_data(data, initial)
