"""What a consumer may read, with the numbers of the protocol."""

from enum import IntEnum

from sawlog.core.errors import ErrorCode, KafkaError


class IsolationLevel(IntEnum):
    """READ_UNCOMMITTED: everything below the high watermark. READ_COMMITTED: everything below the
    last stable offset, and the aborted transactions are named."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

    @classmethod
    def of(cls, number: int) -> "IsolationLevel":
        """Return the level of a request; INVALID_REQUEST for a number that is none."""
        if number == cls.READ_UNCOMMITTED:
            return cls.READ_UNCOMMITTED
        if number == cls.READ_COMMITTED:
            return cls.READ_COMMITTED
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no isolation level {number}")
