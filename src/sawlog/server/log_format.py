"""The format of log lines: one line per event on standard error, as `key=value` pairs or JSON.

Control characters and terminal escape sequences in names or messages from clients are escaped, so
that an event is always one line.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f-\x9f]+")
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069"\\]')
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_PACKAGE = "sawlog."


class LineFormatter(logging.Formatter):
    """`time=... level=info logger=server.listener event="connection rejected" client=10.0.0.7`"""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_word(value)}" for key, value in _items(self, record))


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(dict(_items(self, record)), default=_text)


def set_up_logging(*, as_json: bool, level: str, stream: TextIO | None = None) -> None:
    """Write log lines of `level` and above to `stream`, by default standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # a failing log stream must not raise or log itself
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def json_line(event: str, fields: Mapping[str, Any]) -> str:
    """Format a line for standard output like one of the JSON log."""
    record = logging.LogRecord(__name__, logging.INFO, "", 0, event, None, None)
    record.fields = dict(fields)
    return JsonFormatter().format(record)


def _items(formatter: logging.Formatter, record: logging.LogRecord) -> list[tuple[str, Any]]:
    """Return the keys and values of a line in order; fields cannot replace the fixed keys."""
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    items: list[tuple[str, Any]] = [
        ("time", f"{second}.{int(record.msecs):03d}Z"),
        ("level", record.levelname.lower()),
        ("logger", record.name.removeprefix(_PACKAGE)),
        ("event", record.getMessage()),
    ]
    fixed = {key for key, _ in items}
    fields: dict[str, Any] = getattr(record, "fields", {})
    items += [(f"{key}_" if key in fixed else key, value) for key, value in fields.items()]
    if record.exc_info:
        items.append(("traceback", formatter.formatException(record.exc_info)))
    return items


def _text(value: object) -> str:
    if isinstance(value, list) or type(value) is tuple:  # a named tuple has a text of its own
        return ",".join(map(_text, value))
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _word(value: object) -> str:
    if value is None or value is True or value is False:
        return str(value).lower()
    text = _text(value)
    if _PLAIN.fullmatch(text) and not _UNSAFE.search(text):
        return text
    return '"' + _UNSAFE.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
