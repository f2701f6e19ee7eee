"""Reasons for which the sink writes nothing; their messages are for the user."""


class BadRows(ValueError):
    """Rows that cannot be written as records; the message names the column."""


class Refused(ValueError):
    """The batch cannot be written exactly once; nothing of this attempt becomes visible."""
