"""A small registry of counters and gauges, rendered as Prometheus text.

Every metric is a callback that reads state which the broker keeps anyway, so hot paths pay nothing;
values are computed when the registry is rendered. Names and labels are checked once, when a metric
is declared.
"""

import re
from collections.abc import Callable, Iterable, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NO_LABELS: tuple[str, ...] = ()

Reading = Iterable[tuple[tuple[str, ...], float]]
"""Label values and the metric's value for them."""


class Registry:
    """All metrics of a process, by name. Only counters are named `*_total`."""

    __slots__ = ("_metrics",)

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, str, tuple[str, ...], Callable[[], Reading]]] = {}

    def read_counter(self, name: str, description: str, read: Callable[[], float]) -> None:
        """Declare a counter; `read` is called when metrics are rendered."""
        self._declare(name, "counter", description, _NO_LABELS, lambda: [((), read())])

    def read_gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        """Declare a gauge; `read` is called when metrics are rendered."""
        self._declare(name, "gauge", description, _NO_LABELS, lambda: [((), read())])

    def read_counters(
        self, name: str, description: str, labels: Sequence[str], read: Callable[[], Reading]
    ) -> None:
        """Declare a counter with labels; `read` returns the label values too."""
        self._declare(name, "counter", description, labels, read)

    def read_gauges(
        self, name: str, description: str, labels: Sequence[str], read: Callable[[], Reading]
    ) -> None:
        """Declare a gauge with labels; `read` returns the label values too."""
        self._declare(name, "gauge", description, labels, read)

    def render(self) -> str:
        """Return all metrics in Prometheus text format."""
        lines: list[str] = []
        for name in sorted(self._metrics):
            kind, description, labels, read = self._metrics[name]
            lines.append(f"# HELP {name} {_escape(description)}")
            lines.append(f"# TYPE {name} {kind}")
            for values, value in read():
                lines.append(f"{name}{_braces(labels, values)} {_number(value)}")
        lines.append("")
        return "\n".join(lines)

    def _declare(
        self,
        name: str,
        kind: str,
        description: str,
        labels: Sequence[str],
        read: Callable[[], Reading],
    ) -> None:
        for word in (name, *labels):
            if not _NAME.fullmatch(word):
                raise ValueError(f"not a name for a metric or a label: {word!r}")
        if name in self._metrics:
            raise ValueError(f"metric {name} is declared twice")
        if (kind == "counter") != name.endswith("_total"):
            raise ValueError(f"a name ends with _total if and only if it is a counter's: {name}")
        self._metrics[name] = (kind, description, tuple(labels), read)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _braces(labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not labels:
        return ""
    pairs = (
        f'{name}="{_escape(value).replace(chr(34), chr(92) + chr(34))}"'
        for name, value in zip(labels, values, strict=True)
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
