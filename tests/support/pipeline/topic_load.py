"""A producer in a thread of its own, beside what a test does."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

ROUND_S = 0.1


class TopicLoad:
    """Calls `send_round` with 0, 1, 2 and so on, about ten times per second, while the block lasts.

    What it raises is raised at the end of the block.
    """

    def __init__(self, send_round: Callable[[int], None]) -> None:
        self._send_round = send_round
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        self._done = self._pool.submit(self._work)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        if error is None:
            self._done.result()

    def _work(self) -> None:
        number = 0
        while not self._stop.wait(ROUND_S):
            self._send_round(number)
            number += 1
