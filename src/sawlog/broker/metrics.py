"""What a broker counts about itself: plain attributes on the hot path, names when somebody asks."""

from collections import Counter


class BrokerMetrics:
    """Totals since the start; the shell turns them into Prometheus metrics."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "records_in",
        "requests",
    )

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests: Counter[int] = Counter()

    def appended(self, records: int, size: int) -> None:
        self.records_in += records
        self.bytes_in += size

    def served(self, size: int) -> None:
        self.bytes_out += size

    def received(self, api_key: int) -> None:
        self.requests[api_key] += 1
