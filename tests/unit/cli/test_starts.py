"""Where to begin reading, as people say it."""

import click
import pytest

from sawlog.cli.starts import FromEnd, StartPoint
from sawlog.client.consumer import AT_EARLIEST, AT_LATEST, AtOffset, AtTime, Start


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
def test_a_start_is_a_word_a_number_or_a_time(text: str, start: Start | FromEnd) -> None:
    assert parse(text) == start


def test_a_time_ago_lies_so_far_back() -> None:
    hour, day = parse("1h"), parse("1d")
    assert isinstance(hour, AtTime)
    assert isinstance(day, AtTime)
    apart_ms = hour.timestamp_ms - day.timestamp_ms
    assert 22 * 3_600_000 < apart_ms < 24 * 3_600_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("99999999999d", "no time"),
        ("9" * 5_000 + "d", "no time"),
        ("800000d", "no time"),
        ("30000d", "before 1970"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("0001-01-01T00:00:00Z", "before 1970"),
        ("9223372036854775808", "no offset"),
        ("9" * 5_000, "no offset"),
    ],
)
def test_what_no_record_can_have_is_refused(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter, match=words):
        parse(text)


@pytest.mark.parametrize("text", ["", "start", "1.5", "--5", "5x", "2025-13-01", "m"])
def test_anything_else_is_refused_with_what_is_meant(text: str) -> None:
    with pytest.raises(click.BadParameter, match="beginning, end, an offset"):
        parse(text)
