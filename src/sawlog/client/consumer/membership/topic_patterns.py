"""Subscriptions by pattern where the client has to match: RE2, for the whole name, as a broker."""

from collections.abc import Iterable

from sawlog.core.errors import ErrorCode, KafkaError


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that a pattern matches as a whole; INVALID_REGULAR_EXPRESSION where it is none."""
    import re2  # here: few consumers have a pattern, and of those few have to match it

    options = re2.Options()
    options.log_errors = False
    try:
        matches = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{pattern!r} is no regular expression that RE2 knows: {words}",
        ) from error
    return frozenset(name for name in names if matches(name))
