"""Arbitrary bytes on the port affect their own connection only."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.core.ports import Exchange
from sawlog.server.connection_limits import ConnectionLimits
from support.server.shell import ScriptedApplication, Shell, framed, run

pieces = st.lists(st.integers(1, 50_000), min_size=1, max_size=8)
sizes = st.lists(
    st.one_of(st.integers(0, 100), st.integers(100_000, 200_000)), min_size=1, max_size=12
)


def echo_some_later(exchange: Exchange, request: bytes) -> None:
    """Give every third response in the next turn of the loop."""
    if len(request) % 3:
        exchange.answer([framed(request)])
    else:
        late.append((exchange, request))


late: list[tuple[Exchange, bytes]] = []


@settings(max_examples=15, deadline=None)
@given(sizes=sizes, pieces=pieces)
def test_requests_are_answered_in_order_however_the_stream_is_split(
    sizes: list[int], pieces: list[int]
) -> None:
    bodies = [bytes([index]) * size for index, size in enumerate(sizes)]
    stream = b"".join(map(framed, bodies))

    async def test() -> None:
        late.clear()
        async with Shell(
            ScriptedApplication(echo_some_later), ConnectionLimits(exchanges=3)
        ) as shell:
            client = await shell.client()

            async def send() -> None:
                position = turn = 0
                while position < len(stream):
                    end = position + pieces[turn % len(pieces)]
                    await client.send(stream[position:end])
                    position = end
                    turn += 1

            async def answer_late() -> None:
                while True:
                    await shell.until(lambda: bool(late))
                    exchange, request = late.pop()
                    exchange.answer([framed(request)])

            sending = shell.loop.create_task(send())
            answering = shell.loop.create_task(answer_late())
            assert [await client.answer() for _ in bodies] == bodies
            await sending
            answering.cancel()
            assert shell.application.requests == bodies
            assert shell.resources.budget.taken == 0

    run(test)


@settings(max_examples=30, deadline=None)
@given(garbage=st.binary(max_size=2000), seed=st.integers(0, 2**32))
def test_garbage_affects_its_own_connection_only(garbage: bytes, seed: int) -> None:
    chance = random.Random(seed)

    async def test() -> None:
        async with Shell(limits=ConnectionLimits(frame_bytes=1000)) as shell:
            hostile, other = await shell.client(), await shell.client()
            for _ in range(3):
                cut = chance.randrange(len(garbage) + 1)
                try:
                    await hostile.send(garbage[:cut])
                except ConnectionError:
                    break
                assert await other.request(b"still here") == b"still here"
            hostile.close()
            assert await other.request(b"still here") == b"still here"
            await shell.until(lambda: shell.listener.connections == 1)
            assert shell.resources.budget.taken == 0

    run(test)
