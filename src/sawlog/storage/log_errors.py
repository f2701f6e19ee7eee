"""The errors that clients get from a log."""

from collections.abc import Iterator
from contextlib import contextmanager

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition
from sawlog.core.ports import DiskError
from sawlog.storage.batch_scan import Damage
from sawlog.storage.log_config import LogConfig

logger = EventLogger(__name__)


def out_of_range(tp: TopicPartition, start: int, end: int, offset: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {tp} is not within {start} to {end}"
    )


def too_large(size: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the batch has {size} bytes, more than segment.bytes={config.segment_bytes}",
    )


def damaged(tp: TopicPartition, damage: Damage) -> KafkaError:
    """Report a damaged batch in the broker's log, and return the error of the client."""
    logger.error("damaged batch", log=str(tp), path=damage.file.path, position=damage.position)
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(damage))


def not_readable(tp: TopicPartition, error: Damage | DiskError) -> KafkaError:
    """The error of a client whose read failed."""
    if isinstance(error, Damage):
        return damaged(tp, error)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


@contextmanager
def reading(tp: TopicPartition) -> Iterator[None]:
    """Turn the errors of a read into that of a client."""
    try:
        yield
    except (Damage, DiskError) as error:
        raise not_readable(tp, error) from error
