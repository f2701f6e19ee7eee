"""The ready line: a sentence for people, fields for programs."""

from dataclasses import replace

from sawlog.server.ready_line import ReadyLine

CLEAN = ReadyLine(
    node_id=1,
    version="1.2.3",
    listen="127.0.0.1:9092",
    advertised="127.0.0.1:9092",
    data="/var/lib/sawlog",
    partitions=3,
    recovered_partitions=0,
    recovery_seconds=0.01,
    metrics=None,
    seconds=0.24,
)


def test_a_clean_start_shows_version_data_and_partitions() -> None:
    assert str(CLEAN) == (
        "sawlog broker 1 ready on 127.0.0.1:9092 in 0.24 s"
        " (version 1.2.3, data in /var/lib/sawlog, 3 partitions)"
    )


def test_recovery_and_the_advertised_address_are_shown() -> None:
    ready = replace(
        CLEAN,
        listen="0.0.0.0:9092",
        advertised="logs:9092",
        recovered_partitions=1,
        recovery_seconds=1.5,
        metrics="127.0.0.1:9100",
    )
    assert str(ready) == (
        "sawlog broker 1 ready on 0.0.0.0:9092 in 0.24 s (version 1.2.3, data in /var/lib/sawlog,"
        " advertised as logs:9092, 3 partitions, 1 partition recovered after an unclean stop"
        " in 1.50 s, metrics on 127.0.0.1:9100)"
    )


def test_the_fields_match_the_sentence() -> None:
    fields = CLEAN.fields()
    assert (fields["listen"], fields["recovered_partitions"]) == ("127.0.0.1:9092", 0)
