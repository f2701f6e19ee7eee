"""The cleanings that brokers report, and the batches that the compaction rows clean."""

from itertools import islice

from bench.brokers import Name
from bench.cleanings import Cleaned, parse
from bench.keyed_batches import KEY_BYTES, TIMESTAMP_MS, KeyedRecords
from sawlog.protocol.compression import Codec
from sawlog.protocol.record_batch import check_produced
from sawlog.protocol.records import iterate

KAFKA = """\
[kafka-log-cleaner-thread-0] INFO org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread - [kafka-log-cleaner-thread-0]: 
\tLog cleaner thread 0 cleaned log compaction-100.0.0-0 (dirty section = [0, 3636854])
\t1,381.5 MB of log processed in 5.5 seconds (69.4 MB/sec).
\tIndexed 381.4 MB in 3.1 seconds (121.4 Mb/sec, 57.2% of total time)
"""  # noqa: W291, E501 - as the broker writes it
SAWLOG = (
    'time=2026-11-17T16:20:00.000Z level=info logger=storage.log_cleaner event="log cleaned"'
    " log=compaction-100.0.0-0 cleaned_up_to=3636854 keys=200000 is_map_full=false"
    " records_read=3636854 records_written=199998 bytes_read=399987224 bytes_written=22000000"
    " milliseconds=5820\n"
)


def test_the_reports_of_both_brokers_are_read() -> None:
    log = "compaction-100.0.0-0"
    assert parse(Name.KAFKA, KAFKA) == [Cleaned(log, 1381.5 * 1024 * 1024, 5.5)]
    assert parse(Name.SAWLOG, SAWLOG * 2) == [Cleaned(log, 399_987_224, 5.82)] * 2
    assert parse(Name.SAWLOG, KAFKA) == []


def test_keyed_batches_are_the_same_every_time_and_valid() -> None:
    records = KeyedRecords(400, 100, 50, Codec.ZSTD, step_ms=7)
    batches = list(records.batches())
    assert batches == list(records.batches())
    found = []
    for number, batch in enumerate(batches):
        header = check_produced(memoryview(batch), max_batch_bytes=1 << 20)
        assert header.base_timestamp == TIMESTAMP_MS + 7 * number
        found += list(iterate(batch, max_decompressed_bytes=1 << 20))
    assert len(found) == 400
    assert {len(record.key or b"") + len(record.value or b"") for record in found} == {100}
    assert {len(record.key or b"") for record in found} == {KEY_BYTES}
    assert 40 < len({record.key for record in found}) <= 50


def test_uncompressed_batches_have_about_16_kilobytes() -> None:
    for size in (100, 1_000):
        (batch,) = islice(KeyedRecords(1_000, size, 10).batches(), 1)
        assert 16_000 < len(batch) < 19_000
