"""What the checks of a history accept and refuse."""

import pytest

from sawlog.simulation.history.duplicates import check_duplicates
from sawlog.simulation.history.group_reads import check_group_reads
from sawlog.simulation.history.history import ACKS_ALL, History, Poll, Write
from sawlog.simulation.invariants.violation import Violation

RECORDS = [(0, b"a"), (1, b"b"), (2, b"c")]


def read(*offsets: int, group: str = "group") -> Poll:
    return Poll("member", 0, offsets[0], tuple(RECORDS[offset] for offset in offsets), group)


def consumed(*polls: Poll, committed: int) -> History:
    history = History(polls=list(polls), last_reads={0: RECORDS})
    history.committed["group", 0] = committed
    return history


def test_a_group_has_read_everything_below_its_committed_offset() -> None:
    check_group_reads(consumed(read(0), read(0, 1), committed=2))


@pytest.mark.parametrize(
    "polls",
    [(read(0), read(2)), (read(0), read(1, 2, group="other")), (read(0), read(1, group=""))],
)
def test_a_record_that_a_group_skipped_is_found(polls: tuple[Poll, ...]) -> None:
    with pytest.raises(Violation, match=r"no member has read b'b' at offset 1"):
        check_group_reads(consumed(*polls, committed=2))


def doubled(write: Write) -> History:
    return History(writes=[write], last_reads={0: [(0, write.value), (1, write.value)]})


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_value_of_a_producer_that_never_resends_is_at_one_offset(*, is_idempotent: bool) -> None:
    write = Write("producer", 0, b"a", ACKS_ALL, is_idempotent, 0)
    with pytest.raises(Violation, match=r"has b'a' at offsets 0 and 1"):
        check_duplicates(doubled(write))


def test_a_value_may_be_at_two_offsets_if_its_client_resends_without_sequence_number() -> None:
    write = Write("producer", 0, b"a", ACKS_ALL, is_idempotent=False, began_ms=0, may_repeat=True)
    check_duplicates(doubled(write))
