"""`GET /metrics` over a real socket, and invalid requests."""

import asyncio
from typing import Self

import pytest

from sawlog.core.metrics import CONTENT_TYPE, Registry
from sawlog.server.address import Address
from sawlog.server.metrics_endpoint import MetricsEndpoint
from sawlog.server.process import declare_process_metrics
from support.server.shell import ManualClock, run


class Scraped:
    """An endpoint with a counter, and a client that sends raw bytes."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.registry.read_counter("requests_total", "Requests.", lambda: 3)
        declare_process_metrics(self.registry)
        self.clock = ManualClock()
        self.endpoint = MetricsEndpoint(self.registry, self.clock, Address("127.0.0.1", 0))

    async def __aenter__(self) -> Self:
        await self.endpoint.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.endpoint.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.endpoint.address)

    async def ask(self, request: bytes) -> bytes:
        """Return all bytes until the connection is closed."""
        reader, writer = await self.connect()
        writer.write(request)
        try:
            return await reader.read()
        finally:
            writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


def test_metrics_are_served() -> None:
    async def test() -> None:
        async with Scraped() as scraped:
            response = await scraped.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            head, _, body = response.decode().partition("\r\n\r\n")
            assert head.startswith("HTTP/1.1 200 OK\r\n")
            assert f"Content-Type: {CONTENT_TYPE}" in head
            assert f"Content-Length: {len(body.encode())}" in head
            assert "\nrequests_total 3\n" in body
            assert "\nprocess_resident_memory_bytes " in body

    run(test)


def test_head_has_no_body() -> None:
    async def test() -> None:
        async with Scraped() as scraped:
            response = await scraped.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n")
            assert response.startswith(b"HTTP/1.1 200 OK\r\n")
            assert response.endswith(b"\r\n\r\n")

    run(test)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/9\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"\x00\xff\x16\x03" * 3000, b"431"),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 3000, b"431"),
    ],
)
def test_other_requests_are_rejected(request_bytes: bytes, status: bytes) -> None:
    async def test() -> None:
        async with Scraped() as scraped:
            response = await scraped.ask(request_bytes)
            assert response.split(b" ")[1] == status

    run(test)


def test_a_silent_client_is_disconnected() -> None:
    async def test() -> None:
        async with Scraped() as scraped:
            reader, writer = await scraped.connect()
            writer.write(b"GET /metr")
            while not scraped.endpoint.scrapes:
                await asyncio.sleep(0)
            scraped.clock.advance(10_000)
            assert await is_closed(reader)
            writer.close()

    run(test)


def test_connections_are_bounded() -> None:
    async def test() -> None:
        async with Scraped() as scraped:
            silent = [await scraped.connect() for _ in range(40)]
            ends = [asyncio.ensure_future(is_closed(reader)) for reader, _ in silent]
            while sum(end.done() for end in ends) < 24:
                await asyncio.sleep(0)
            assert len(scraped.endpoint.scrapes) == 16
            for end, (_, writer) in zip(ends, silent, strict=True):
                end.cancel()
                writer.close()

    run(test)


def test_a_metric_that_raises_gives_an_error_response() -> None:
    async def test() -> None:
        async with Scraped() as scraped:
            scraped.registry.read_gauge("broken", "Broken.", lambda: 1 / 0)
            for _ in range(2):
                response = await scraped.ask(b"GET /metrics HTTP/1.1\r\n\r\n")
                assert response.startswith(b"HTTP/1.1 500 ")

    run(test)
