"""Names and formats of checkpoints and other small files."""

import pytest

from sawlog.core.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from sawlog.storage import log_files
from sawlog.storage.leader_epochs import EpochEntry


def partition(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def test_offset_checkpoints_have_kafka_format() -> None:
    offsets = {partition("a", 0): 5, partition("b.c-1", 12): 2**40}
    data = log_files.encode_offsets(offsets)
    assert data == b"0\n2\na 0 5\nb.c-1 12 1099511627776\n"
    assert log_files.decode_offsets(data) == offsets
    assert log_files.decode_offsets(log_files.encode_offsets({})) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1\n0\n",
        b"0\n",
        b"0\n1\n",
        b"0\n2\na 0 5\n",
        b"0\n0\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 5 6\n",
        b"0\n1\na x 5\n",
        b"0\n1\na -1 5\n",
        b"0\n1\na 0 -5\n",
        b"0\n1\na 0 5x\n",
        b"0\n1\na/b 0 5\n",
        b"0\n1\n\xff\xfe 0 5\n",
        b"0\n2\na 0 5\na 0 6\n",
        b"0\n1\na 0 5",
        b"0\n1\na 0 99999999999999999999999\n",
        b"\0\0\0\0",
    ],
)
def test_an_invalid_offset_checkpoint_is_corrupt(data: bytes) -> None:
    with pytest.raises(log_files.CorruptFile):
        log_files.decode_offsets(data)


def test_epoch_checkpoints_have_kafka_format() -> None:
    entries = [EpochEntry(0, 0), EpochEntry(3, 17)]
    assert log_files.encode_epochs(entries) == b"0\n2\n0 0\n3 17\n"
    assert log_files.decode_epochs(b"0\n2\n0 0\n3 17\n") == entries


@pytest.mark.parametrize(
    "data",
    [b"", b"0\n1\n0\n", b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n-1 5\n", b"0\n1\n1 -5\n"],
)
def test_an_invalid_epoch_checkpoint_is_corrupt(data: bytes) -> None:
    with pytest.raises(log_files.CorruptFile):
        log_files.decode_epochs(data)


def test_partition_metadata_has_kafka_format() -> None:
    topic_id = TopicId(bytes(range(16)))
    data = log_files.encode_partition_metadata(topic_id)
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert log_files.decode_partition_metadata(data) == topic_id
    for damaged in (b"", data[:-1], data.replace(b"0", b"1", 1), data.replace(b"A", b"*")):
        with pytest.raises(log_files.CorruptFile):
            log_files.decode_partition_metadata(damaged)


def test_meta_properties_have_kafka_format() -> None:
    meta = log_files.MetaProperties("cluster", 3, "dir")
    assert log_files.decode_meta_properties(log_files.encode_meta_properties(meta)) == meta
    kafka = (
        b"#\n#Mon Jan 01 00:00:00 UTC 2024\nnode.id=1\ndirectory.id=x\nversion=1\ncluster.id=c\n"
    )
    assert log_files.decode_meta_properties(kafka) == ("c", 1, "x")
    for damaged in (
        b"",
        b"version=0\nbroker.id=1\n",
        b"version=1\ncluster.id=c\nnode.id=x\n",
        b"\xff",
    ):
        with pytest.raises(log_files.CorruptFile):
            log_files.decode_meta_properties(damaged)


def test_clean_shutdown_markers_have_kafka_format() -> None:
    assert log_files.decode_clean_shutdown(log_files.encode_clean_shutdown(42)) == 42
    assert log_files.decode_clean_shutdown(b"") == -1
    for damaged in (b"{", b"[]", b'{"version": 0}', b"\xff\xff"):
        with pytest.raises(log_files.CorruptFile):
            log_files.decode_clean_shutdown(damaged)


def test_only_names_of_segment_files_and_snapshots_are_parsed() -> None:
    assert log_files.offset_name(17, log_files.LOG) == "00000000000000000017.log"
    assert log_files.parse_offset_name("00000000000000000017.log") == (17, ".log")
    assert log_files.parse_offset_name("00000000000000000017.snapshot") == (17, ".snapshot")
    for other in (
        "17.log",
        "00000000000000000017.log.deleted",
        "leader-epoch-checkpoint",
        "x" * 24,
    ):
        assert log_files.parse_offset_name(other) is None


def test_only_names_of_partition_directories_are_parsed() -> None:
    assert log_files.parse_partition_directory("a-b-3") == ("a-b", 3)
    for other in ("a", "a-", "-3", "a-03", "a-x", "a/b-3", "a-3.0123-delete", "..-1x"):
        assert log_files.parse_partition_directory(other) is None
    assert log_files.parse_partition_directory("..-1") is None


def test_names_of_deleted_directories_fit_the_file_system() -> None:
    name = log_files.deleted_directory_name(partition("t" * 249, 5), bytes(16))
    assert len(name) == 255
    assert name.endswith("-5." + "00" * 16 + "-delete")
