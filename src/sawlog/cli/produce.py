"""`sawlog produce`: lines of text to records of a topic."""

import os
import select
from collections.abc import Callable, Iterator

import click

from sawlog.cli.options import with_cluster
from sawlog.cli.output import note, progress
from sawlog.cli.record_lines import Line, NoRecord, from_json
from sawlog.client.cluster import Cluster
from sawlog.client.producer import ALL_REPLICAS, Producer
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Headers

_READ_BYTES = 256 * 1024
_ACKS = {"0": 0, "1": 1, "all": ALL_REPLICAS}

Reader = Callable[[bytes], Line]


@click.command()
@click.argument("topic")
@click.option(
    "-f", "--file", "path", type=click.Path(exists=True, dir_okay=False), help="Not stdin."
)
@click.option("--json", "as_json", is_flag=True, help="Lines are JSON, as consume --json prints.")
@click.option("-k", "--key-separator", metavar="TEXT", help="What stands before it is the key.")
@click.option("--key", help="The key of all records.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Of all records; repeat."
)
@click.option("--null", "null_text", metavar="TEXT", help="A value of this text is a null.")
@click.option("-p", "--partition", type=click.IntRange(0), help="All to this one.")
@click.option(
    "-c",
    "--codec",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
)
@click.option("--acks", type=click.Choice(list(_ACKS)), default="all", show_default=True)
@click.option("--create", is_flag=True, help="Let the broker create the topic, where it does.")
@with_cluster
def produce(
    topic: str,
    path: str | None,
    as_json: bool,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    null_text: str | None,
    partition: int | None,
    codec: str,
    acks: str,
    create: bool,
    cluster: Cluster,
) -> None:
    """Send each line of stdin or of a file to TOPIC as a record.

    Where input pauses, what was read so far is sent and acknowledged.
    """
    if as_json and (key_separator or key or null_text or headers):
        raise click.UsageError("--json lines have their own keys and headers; give it alone")
    if key_separator and key:
        raise click.UsageError("give --key or --key-separator, not both")
    read = from_json if as_json else _plain(key_separator, key, null_text, _headers(headers))
    cluster.topic(topic, create_missing=create)
    producer = Producer(
        cluster,
        acks=_ACKS[acks],
        codec=Codec[codec.upper()],
        delivery_timeout_ms=cluster.timeout_ms,
        create_topics=create,
    )
    descriptor = 0 if path is None else os.open(path, os.O_RDONLY)
    try:
        count = _send_lines(producer, topic, descriptor, read, partition)
    finally:
        if path is not None:
            os.close(descriptor)
    note(f"produced {count} records to {topic}")


def _send_lines(
    producer: Producer, topic: str, descriptor: int, read: Reader, partition: int | None
) -> int:
    total = os.fstat(descriptor).st_size or None
    count = 0
    with progress(f"producing to {topic}", total, unit="bytes") as bar:
        for line in _lines(descriptor, producer.flush):
            try:
                record = read(line)
            except NoRecord as error:
                producer.flush()
                raise click.ClickException(
                    f"line {count + 1}: {error}; the {count} lines before it were sent"
                ) from None
            count += 1
            producer.send(
                topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition if partition is None else partition,
                timestamp_ms=record.timestamp_ms,
            )
            bar.advance(len(line) + 1)
        producer.flush()
    return count


def _plain(
    separator: str | None, key: str | None, null_text: str | None, headers: Headers
) -> Reader:
    split = None if separator is None else separator.encode()
    fixed_key = None if key is None else key.encode()
    null = None if null_text is None else null_text.encode()

    def read(line: bytes) -> Line:
        own_key, value = fixed_key, line
        if split is not None:
            own_key, found, value = line.partition(split)
            if not found:
                raise NoRecord(f"no {separator!r} between a key and a value in {line[:60]!r}")
        return Line(own_key, None if value == null else value, headers)

    return read


def _headers(texts: tuple[str, ...]) -> Headers:
    headers: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--header {text}: expected NAME=VALUE")
        headers.append((name, value.encode()))
    return tuple(headers)


def _lines(descriptor: int, paused: Callable[[], None]) -> Iterator[bytes]:
    """Lines without their ends; `paused` is called when no more input is there for now."""
    begun: list[bytes] = []  # the pieces of a line whose end has not been read
    while chunk := os.read(descriptor, _READ_BYTES):
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            yield from others[:-1]
            begun = [others[-1]]
        if not select.select([descriptor], [], [], 0)[0]:
            paused()
    if rest := b"".join(begun):
        yield rest
