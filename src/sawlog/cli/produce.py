"""`sawlog produce`: send lines of text to a topic as records."""

import os
import select
from collections.abc import Callable, Iterator

import click

from sawlog.cli.cluster_options import with_cluster
from sawlog.cli.error_messages import Stopped
from sawlog.cli.option_types import PARTITION, RAW_BYTES, TEXT, split_pair
from sawlog.cli.output import counted, note, progress
from sawlog.cli.record_format import InvalidRecord, Line, from_json
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.delivery import DeliveryFailed
from sawlog.client.producer.producer import ALL_REPLICAS, Producer
from sawlog.core.errors import KafkaError
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Headers

_READ_BYTES = 256 * 1024
_ACKS = {"0": 0, "1": 1, "all": ALL_REPLICAS}

LineParser = Callable[[bytes], Line]


@click.command()
@click.argument("topic", type=TEXT)
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help="Read this file instead of stdin.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Lines are JSON, as `sawlog consume --json` prints it."
)
@click.option(
    "-k",
    "--key-separator",
    type=RAW_BYTES,
    metavar="TEXT",
    help="Split each line into key and value at the first TEXT.",
)
@click.option("--key", type=RAW_BYTES, help="Key of all records.")
@click.option(
    "-H",
    "--header",
    "headers",
    type=TEXT,
    multiple=True,
    metavar="NAME=VALUE",
    help="Header of all records. May be repeated.",
)
@click.option("--null", type=RAW_BYTES, metavar="TEXT", help="Send null if the value is TEXT.")
@click.option("-p", "--partition", type=PARTITION, help="Send all records to this partition.")
@click.option(
    "-c",
    "--codec",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
    help="Compression of batches.",
)
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    show_default=True,
    help="Acknowledgement to wait for: 0 none, 1 written by the leader, all flushed.",
)
@click.option(
    "--create", is_flag=True, help="Create the topic if the broker has auto.create.topics.enable."
)
@with_cluster
def produce(
    topic: str,
    path: str | None,
    as_json: bool,
    key_separator: bytes | None,
    key: bytes | None,
    headers: tuple[str, ...],
    null: bytes | None,
    partition: int | None,
    codec: str,
    acks: str,
    create: bool,
    cluster: Cluster,
) -> None:
    """Send each line of stdin or of a file to TOPIC as a record.

    When the input pauses, all lines read so far are sent at once.
    """
    if as_json and (headers or any(text is not None for text in (key_separator, key, null))):
        raise click.UsageError(
            "--json lines contain keys and headers; leave out --key, --key-separator, --header and"
            " --null"
        )
    if key_separator is not None and key is not None:
        raise click.UsageError("give --key or --key-separator, not both")
    if key_separator == b"":
        raise click.UsageError("--key-separator is empty; expected at least one character")
    parse = from_json if as_json else _text_parser(key_separator, key, null, _headers(headers))
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
        _LineSender(producer, topic, parse, partition).send_lines(descriptor)
    finally:
        if path is not None:
            os.close(descriptor)
    note(f"produced {counted(producer.delivered_count, 'record')} to {topic}")


class _LineSender:
    """Sends lines as records; `_count` lines were sent, so line N is the producer's record N."""

    def __init__(
        self, producer: Producer, topic: str, parse: LineParser, partition: int | None
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._parse = parse
        self._partition = partition
        self._count = 0

    def send_lines(self, descriptor: int) -> None:
        """Send all lines. Raises Stopped at the first failure, with its line and the progress."""
        total = os.fstat(descriptor).st_size or None
        try:
            label = f"producing to {self._topic}"
            with progress(label, total, unit="bytes", reads=descriptor) as bar:
                for line in _lines(descriptor, self._producer.flush):
                    self._send(line)
                    bar.advance(len(line) + 1)
                self._producer.flush()
        except DeliveryFailed as error:
            raise Stopped(error, f"line {error.first_number}: ", self._progress()) from None
        except KeyboardInterrupt:
            note(f"sawlog: interrupted; {self._progress()}")
            raise

    def _send(self, line: bytes) -> None:
        try:
            record = self._parse(line)
            self._producer.send(
                self._topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition if self._partition is None else self._partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (InvalidRecord, KafkaError) as error:
            self._producer.flush()
            done = f"{counted(self._count, 'line')} before it sent"
            raise Stopped(error, f"line {self._count + 1}: ", done) from None
        self._count += 1
        if self._producer.has_failed:
            self._producer.flush()

    def _progress(self) -> str:
        delivered = counted(self._producer.delivered_count, "record")
        return f"{delivered} delivered, {counted(self._count, 'line')} read"


def _text_parser(
    separator: bytes | None, key: bytes | None, null: bytes | None, headers: Headers
) -> LineParser:
    def parse(line: bytes) -> Line:
        own_key, value = key, line
        if separator is not None:
            own_key, found, value = line.partition(separator)
            if not found:
                raise InvalidRecord(f"no key separator {_shown(separator)} in {_shown(line[:60])}")
        return Line(own_key, None if value == null else value, headers)

    return parse


def _shown(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))


def _headers(texts: tuple[str, ...]) -> Headers:
    pairs = (split_pair("--header", text, "NAME") for text in texts)
    return tuple((name, value.encode()) for name, value in pairs)


def _lines(descriptor: int, on_pause: Callable[[], None]) -> Iterator[bytes]:
    """Yield lines without their newlines; call `on_pause` whenever no input is available."""
    partial: list[bytes] = []  # the pieces of a line whose newline has not been read
    while chunk := _read(descriptor):
        first, *others = chunk.split(b"\n")
        partial.append(first)
        if others:
            yield b"".join(partial)
            yield from others[:-1]
            partial = [others[-1]]
        if not select.select([descriptor], [], [], 0)[0]:
            on_pause()
    if rest := b"".join(partial):
        yield rest


def _read(descriptor: int) -> bytes:
    """Wait for input, even on a non-blocking descriptor, and read it."""
    try:
        select.select([descriptor], [], [])
        return os.read(descriptor, _READ_BYTES)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "the input") from error
