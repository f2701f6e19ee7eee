"""The outcome of an append to a log."""

from typing import NamedTuple


class Appended(NamedTuple):
    """The outcome of an append. A duplicate is not appended: its offset and timestamp are those of
    the first append."""

    base_offset: int
    append_time_ms: int  # -1 if records keep their producer's timestamps
    duplicate: bool
