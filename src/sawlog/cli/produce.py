"""`sawlog produce`: lines of text to records of a topic."""

import os
import select
from collections.abc import Callable, Iterator

import click

from sawlog.cli.common_options import with_cluster
from sawlog.cli.exit_codes import Stopped
from sawlog.cli.option_types import PARTITION, RAW_BYTES, TEXT, split_pair
from sawlog.cli.output import counted, note, progress
from sawlog.cli.record_format import Line, NoRecord, from_json
from sawlog.client.net.cluster import Cluster
from sawlog.client.producer.delivery import DeliveryFailed
from sawlog.client.producer.producer import ALL_REPLICAS, Producer
from sawlog.core.errors import KafkaError
from sawlog.protocol.compression import Codec
from sawlog.protocol.records import Headers

_READ_BYTES = 256 * 1024
_ACKS = {"0": 0, "1": 1, "all": ALL_REPLICAS}

Reader = Callable[[bytes], Line]


@click.command()
@click.argument("topic", type=TEXT)
@click.option(
    "-f", "--file", "path", type=click.Path(exists=True, dir_okay=False), help="Not stdin."
)
@click.option("--json", "as_json", is_flag=True, help="Lines are JSON, as consume --json prints.")
@click.option(
    "-k",
    "--key-separator",
    type=RAW_BYTES,
    metavar="TEXT",
    help="What stands before it is the key.",
)
@click.option("--key", type=RAW_BYTES, help="The key of all records.")
@click.option(
    "-H",
    "--header",
    "headers",
    type=TEXT,
    multiple=True,
    metavar="NAME=VALUE",
    help="Of all records; repeat.",
)
@click.option("--null", type=RAW_BYTES, metavar="TEXT", help="A value of this text is a null.")
@click.option("-p", "--partition", type=PARTITION, help="All to this one.")
@click.option(
    "-c",
    "--codec",
    type=click.Choice([codec.name.lower() for codec in Codec]),
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    show_default=True,
    help="When a record counts as delivered: at once, written, flushed.",
)
@click.option("--create", is_flag=True, help="Let the broker create the topic, where it does.")
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

    Where input pauses, what was read so far is sent and acknowledged.
    """
    if as_json and (headers or any(text is not None for text in (key_separator, key, null))):
        raise click.UsageError("--json lines have their own keys and headers; give it alone")
    if key_separator is not None and key is not None:
        raise click.UsageError("give --key or --key-separator, not both")
    if key_separator == b"":
        raise click.UsageError("--key-separator is empty; expected what ends a key")
    read = from_json if as_json else _plain(key_separator, key, null, _headers(headers))
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
        _Sending(producer, topic, read, partition).send_lines(descriptor)
    finally:
        if path is not None:
            os.close(descriptor)
    note(f"produced {counted(producer.delivered_count, 'record')} to {topic}")


class _Sending:
    """Lines on their way; `_count` of them were read, and each is the record of that number."""

    def __init__(self, producer: Producer, topic: str, read: Reader, partition: int | None) -> None:
        self._producer = producer
        self._topic = topic
        self._read = read
        self._partition = partition
        self._count = 0

    def send_lines(self, descriptor: int) -> None:
        """Up to the first that cannot be sent; Stopped says which, and what became of the rest."""
        total = os.fstat(descriptor).st_size or None
        try:
            label = f"producing to {self._topic}"
            with progress(label, total, unit="bytes", reads=descriptor) as bar:
                for line in _lines(descriptor, self._producer.flush):
                    self._send(line)
                    bar.advance(len(line) + 1)
                self._producer.flush()
        except DeliveryFailed as error:
            raise Stopped(error, f"line {error.first_number}: ", self._so_far()) from None
        except KeyboardInterrupt:
            note(f"sawlog: interrupted; {self._so_far()}")
            raise

    def _send(self, line: bytes) -> None:
        try:
            record = self._read(line)
            self._producer.send(
                self._topic,
                record.value,
                record.key,
                headers=record.headers,
                partition=record.partition if self._partition is None else self._partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (NoRecord, KafkaError) as error:
            self._producer.flush()
            done = f"sent before it: {counted(self._count, 'line')}"
            raise Stopped(error, f"line {self._count + 1}: ", done) from None
        self._count += 1
        if self._producer.has_failed:
            self._producer.flush()

    def _so_far(self) -> str:
        delivered = counted(self._producer.delivered_count, "record")
        return f"{delivered} delivered, the input read up to line {self._count}"


def _plain(
    separator: bytes | None, key: bytes | None, null: bytes | None, headers: Headers
) -> Reader:
    def read(line: bytes) -> Line:
        own_key, value = key, line
        if separator is not None:
            own_key, found, value = line.partition(separator)
            if not found:
                raise NoRecord(
                    f"no {_shown(separator)} between a key and a value in {_shown(line[:60])}"
                )
        return Line(own_key, None if value == null else value, headers)

    return read


def _shown(data: bytes) -> str:
    return repr(data.decode("utf-8", "backslashreplace"))


def _headers(texts: tuple[str, ...]) -> Headers:
    pairs = (split_pair("--header", text, "NAME") for text in texts)
    return tuple((name, value.encode()) for name, value in pairs)


def _lines(descriptor: int, paused: Callable[[], None]) -> Iterator[bytes]:
    """Lines without their ends; `paused` is called when no more input is there for now."""
    begun: list[bytes] = []  # the pieces of a line whose end has not been read
    while chunk := _read(descriptor):
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


def _read(descriptor: int) -> bytes:
    """Waits for input, also where the descriptor would not; a closed standard input is told."""
    try:
        select.select([descriptor], [], [])
        return os.read(descriptor, _READ_BYTES)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "the input") from error
