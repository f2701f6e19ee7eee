"""Start options: offsets, times, times ago."""

import time

import click
import pytest

from sawlog.cli.start_options import FromEnd, StartPoint, TimePoint, show_time
from sawlog.client.consumer.consumer import AT_EARLIEST, AT_LATEST, AtOffset, AtTime, Start


def parse(text: str) -> Start | FromEnd:
    return StartPoint().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", AT_EARLIEST),
        ("end", AT_LATEST),
        ("0", AtOffset(0)),
        ("17", AtOffset(17)),
        ("-5", FromEnd(5)),
        ("1970-01-01T00:00:01Z", AtTime(1_000)),
        ("1970-01-01T01:00:00.500+01:00", AtTime(500)),
    ],
)
def test_start_is_a_word_a_number_or_a_time(text: str, start: Start | FromEnd) -> None:
    assert parse(text) == start


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_time_without_a_zone_is_utc_in_every_time_zone(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse("1970-01-01T00:00:01") == AtTime(1_000)
        assert parse("1970-01-02") == AtTime(86_400_000)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("text", "same"), [("2h ago", "2h"), ("3d  ago", "3d")])
def test_ago_is_optional(text: str, same: str) -> None:
    long, short = parse(text), parse(same)
    assert isinstance(long, AtTime)
    assert isinstance(short, AtTime)
    assert 0 <= short.timestamp_ms - long.timestamp_ms < 60_000


def parse_time(text: str) -> AtTime:
    return TimePoint().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1738324800000", 1_738_324_800_000),
        ("2025-01-31T12:00:00", 1_738_324_800_000),
        ("2025-01-31 13:00+01:00", 1_738_324_800_000),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_number_is_a_timestamp_where_only_times_are_valid(text: str, timestamp_ms: int) -> None:
    assert parse_time(text) == AtTime(timestamp_ms)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1738324800", "too few digits for milliseconds since 1970"),
        ("17", "too few digits"),
        ("000000000000017", "too few digits"),
        ("9223372036854775808", "outside the range of timestamps"),
        ("9" * 5_000, "outside the range of timestamps"),
        ("-1738324800000", "not one of: a time"),
        ("noon", "UTC unless a zone is given"),
        ("15m before", "a time ago"),
        ("ago", "a time ago"),
    ],
)
def test_invalid_time_is_refused_with_valid_examples(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=words):
        parse_time(text)


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (1_738_324_800_000, "2025-01-31T12:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (2**63 - 1, "9223372036854775807 ms after 1970"),
    ],
)
def test_time_is_shown_with_its_zone(timestamp_ms: int, text: str) -> None:
    assert show_time(timestamp_ms) == text


def test_time_ago_is_subtracted_from_now() -> None:
    hour, day = parse("1h"), parse("1d")
    assert isinstance(hour, AtTime)
    assert isinstance(day, AtTime)
    apart_ms = hour.timestamp_ms - day.timestamp_ms
    assert 22 * 3_600_000 < apart_ms < 24 * 3_600_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("99999999999d", "outside the range"),
        ("9" * 5_000 + "d", "outside the range"),
        ("800000d", "outside the range"),
        ("30000d", "before 1970"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("0001-01-01T00:00:00Z", "before 1970"),
        ("9223372036854775808", "not an offset"),
        ("9" * 5_000, "not an offset"),
    ],
)
def test_values_that_no_record_can_have_are_refused(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=words):
        parse(text)


@pytest.mark.parametrize("text", ["", "start", "1.5", "--5", "5x", "2025-13-01", "m"])
def test_invalid_start_is_refused_with_valid_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="beginning, end, an offset"):
        parse(text)
