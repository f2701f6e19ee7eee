"""A small registry of counters, gauges and histograms, rendered as Prometheus text.

An increment is one attribute update (`counter.value += 1`), so hot paths can afford it; what can
be read off the state is read only when somebody asks. Names and labels are checked once, when a
metric is declared; nothing here knows about files, sockets or clocks.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LATENCY_BOUNDS_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10
)  # fmt: skip

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NO_LABELS: tuple[str, ...] = ()

Sample = tuple[str, tuple[tuple[str, str], ...], float]
"""A suffix to the metric's name, the labels, and the value."""

Reading = Iterable[tuple[tuple[str, ...], float]]
"""Label values and the value under them, as a callback gives them."""


class Counter:
    """Goes up only."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def samples(self) -> Iterable[tuple[str, tuple[tuple[str, str], ...], float]]:
        yield "", (), self.value


class Gauge(Counter):
    """Goes up and down."""

    __slots__ = ()

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """Observations counted in buckets with fixed upper bounds, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_SECONDS) -> None:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f"bucket bounds must be rising, not {bounds!r}")
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum: float = 0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterable[Sample]:
        running = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            running += count
            yield "_bucket", (("le", _number(bound)),), running
        running += self._counts[-1]
        yield "_bucket", (("le", "+Inf"),), running
        yield "_sum", (), self._sum
        yield "_count", (), running


M = TypeVar("M", Counter, Gauge, Histogram)


class Family(Generic[M]):
    """One metric per combination of label values, made when it is first asked for."""

    __slots__ = ("_children", "_make", "_names")

    def __init__(self, names: Sequence[str], make: Callable[[], M]) -> None:
        self._names = tuple(names)
        self._make: Callable[[], M] = make
        self._children: dict[tuple[str, ...], M] = {}

    def labels(self, *values: str) -> M:
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self._names):
                raise ValueError(f"labels are {self._names}, got {values!r}")
            child = self._children[values] = self._make()
        return child

    def remove(self, *values: str) -> None:
        """Forgets one combination, for what exists no longer."""
        self._children.pop(values, None)

    def samples(self) -> Iterable[Sample]:
        for values in sorted(self._children):
            labels = tuple(zip(self._names, values, strict=True))
            for suffix, more, value in self._children[values].samples():
                yield suffix, labels + more, value


class Registry:
    """All metrics of a process, by name."""

    __slots__ = ("_metrics",)

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, str, Callable[[], Iterable[Sample]]]] = {}

    def counter(self, name: str, description: str) -> Counter:
        counter = Counter()
        self._declare(name, "counter", description, _NO_LABELS, counter.samples)
        return counter

    def counters(self, name: str, description: str, labels: Sequence[str]) -> Family[Counter]:
        family = Family(labels, Counter)
        self._declare(name, "counter", description, labels, family.samples)
        return family

    def gauge(self, name: str, description: str) -> Gauge:
        gauge = Gauge()
        self._declare(name, "gauge", description, _NO_LABELS, gauge.samples)
        return gauge

    def gauges(self, name: str, description: str, labels: Sequence[str]) -> Family[Gauge]:
        family = Family(labels, Gauge)
        self._declare(name, "gauge", description, labels, family.samples)
        return family

    def histogram(
        self, name: str, description: str, bounds: Sequence[float] = LATENCY_BOUNDS_SECONDS
    ) -> Histogram:
        histogram = Histogram(bounds)
        self._declare(name, "histogram", description, _NO_LABELS, histogram.samples)
        return histogram

    def histograms(
        self,
        name: str,
        description: str,
        labels: Sequence[str],
        bounds: Sequence[float] = LATENCY_BOUNDS_SECONDS,
    ) -> Family[Histogram]:
        family = Family(labels, lambda: Histogram(bounds))
        self._declare(name, "histogram", description, labels, family.samples)
        return family

    def read_counter(self, name: str, description: str, read: Callable[[], float]) -> None:
        """A counter that somebody else keeps; `read` is called when metrics are rendered."""
        self._declare(name, "counter", description, _NO_LABELS, lambda: [("", (), read())])

    def read_gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        """A gauge that is computed when metrics are rendered."""
        self._declare(name, "gauge", description, _NO_LABELS, lambda: [("", (), read())])

    def read_gauges(
        self, name: str, description: str, labels: Sequence[str], read: Callable[[], Reading]
    ) -> None:
        """Gauges whose label values, too, are found when metrics are rendered."""
        self._declare(name, "gauge", description, labels, lambda: _read(labels, read))

    def read_counters(
        self, name: str, description: str, labels: Sequence[str], read: Callable[[], Reading]
    ) -> None:
        """The same for counters that somebody else counts."""
        self._declare(name, "counter", description, labels, lambda: _read(labels, read))

    def render(self) -> str:
        """Everything in Prometheus text format."""
        lines: list[str] = []
        for name in sorted(self._metrics):
            kind, description, samples = self._metrics[name]
            lines.append(f"# HELP {name} {_escape(description)}")
            lines.append(f"# TYPE {name} {kind}")
            for suffix, labels, value in samples():
                lines.append(f"{name}{suffix}{_braces(labels)} {_number(value)}")
        lines.append("")
        return "\n".join(lines)

    def _declare(
        self,
        name: str,
        kind: str,
        description: str,
        labels: Sequence[str],
        samples: Callable[[], Iterable[Sample]],
    ) -> None:
        for word in (name, *labels):
            if not _NAME.fullmatch(word) or word == "le":
                raise ValueError(f"not a name for a metric or a label: {word!r}")
        if name in self._metrics:
            raise ValueError(f"metric {name} is declared twice")
        if (kind == "counter") != name.endswith("_total"):
            raise ValueError(f"counters, and only they, are named *_total: {name}")
        self._metrics[name] = (kind, description, samples)


def _read(labels: Sequence[str], read: Callable[[], Reading]) -> Iterable[Sample]:
    for values, value in read():
        yield "", tuple(zip(labels, values, strict=True)), value


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _braces(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    pairs = (
        f'{name}="{_escape(value).replace(chr(34), chr(92) + chr(34))}"' for name, value in labels
    )
    return "{" + ",".join(pairs) + "}"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    return "NaN" if value != value else repr(value)
