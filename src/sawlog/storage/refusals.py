"""The errors with which a log refuses, in words."""

from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.core.event_logger import EventLogger
from sawlog.core.ids import TopicPartition
from sawlog.protocol.record_batch import BatchHeader
from sawlog.storage.log_config import LogConfig
from sawlog.storage.scan import Damage

events = EventLogger(__name__)


def out_of_range(tp: TopicPartition, start: int, end: int, offset: int) -> KafkaError:
    return KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{tp} takes {start} to {end}, not {offset}")


def damaged(tp: TopicPartition, damage: Damage) -> KafkaError:
    """Damage that a reader ran into; whoever operates the broker hears of it too."""
    events.error("damaged batch", log=str(tp), path=damage.file.path, position=damage.position)
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(damage))


def bad_timestamp(header: BatchHeader, now_ms: int, config: LogConfig) -> KafkaError:
    earliest = now_ms - config.timestamp_before_max_ms
    latest = now_ms + config.timestamp_after_max_ms
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamps {header.base_timestamp} to {header.max_timestamp} are not within"
        f" [{earliest}, {latest}]",
    )


def too_large(size: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the batch has {size} bytes, a segment {config.segment_bytes} (segment.bytes)",
    )
