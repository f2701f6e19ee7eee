"""Keys as JSON: the form in which decoded keys reach the columns of a keyed table."""

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any


class BadKey(Exception):
    """A key that cannot be decoded; the message is the reason."""


def key_json(value: Any) -> bytes:
    """The JSON of a key, a Python value that Arrow returned. Raises BadKey."""
    return json.dumps(value, default=_json_value, ensure_ascii=False).encode()


def _json_value(value: Any) -> str:
    """A value that JSON lacks, in the form that columns of its type take."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise BadKey(f"a key of {type(value).__name__} cannot be JSON")
