"""The metrics registry; the rendered text is read back by a strict parser."""

import re
from typing import NamedTuple

import pytest

from sawlog.core.metrics import Registry

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{(?P<labels>[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*")*)\})?'
    r" (?P<value>[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf)|NaN)"
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Parsed(NamedTuple):
    kinds: dict[str, str]
    values: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, /, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]


def parse(text: str) -> Parsed:
    """Prometheus text format 0.0.4: every family announced, every sample inside its family."""
    assert text.endswith("\n")
    parsed = Parsed({}, {})
    family = described = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            described = line.split(" ", 3)[2]
        elif line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family == described
            assert family not in parsed.kinds
            parsed.kinds[family] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match["name"] == family
            labels = frozenset(
                (name, re.sub(r"\\.", lambda found: _UNESCAPED[found.group()], value))
                for name, value in _LABEL.findall(match["labels"] or "")
            )
            assert (match["name"], labels) not in parsed.values
            parsed.values[match["name"], labels] = float(match["value"])
    return parsed


def test_counters_and_gauges_are_rendered_with_their_values() -> None:
    registry = Registry()
    registry.read_counter("requests_total", "Requests.", lambda: 3)
    registry.read_gauge("connections", "Open connections.", lambda: 3.5)
    parsed = parse(registry.render())
    assert parsed.kinds == {"requests_total": "counter", "connections": "gauge"}
    assert (parsed.value("requests_total"), parsed.value("connections")) == (3, 3.5)


def test_label_values_are_escaped() -> None:
    odd = 'a "quoted" \\ back\\nslash\nand a line, {braces} = ünïcode'
    registry = Registry()
    registry.read_counters(
        "requests_total",
        "By api\nand \\ more.",
        ("api", "topic"),
        lambda: [(("Fetch", odd), 7), (("Fetch", "plain"), 1)],
    )
    parsed = parse(registry.render())
    assert parsed.value("requests_total", api="Fetch", topic=odd) == 7
    assert parsed.value("requests_total", api="Fetch", topic="plain") == 1


def test_values_are_read_when_metrics_are_rendered() -> None:
    registry = Registry()
    state = {"a": 1.0}
    registry.read_gauge("things", "How many.", lambda: len(state))
    registry.read_counter("work_total", "Work.", lambda: sum(state.values()))
    registry.read_gauges(
        "thing", "Each.", ("name",), lambda: [((name,), value) for name, value in state.items()]
    )
    state["b"] = float("inf")
    parsed = parse(registry.render())
    assert (parsed.value("things"), parsed.value("thing", name="b")) == (2, float("inf"))
    assert parsed.value("work_total") == float("inf")


@pytest.mark.parametrize("name", ["", "9lives", "a-b", "räksmörgås", "counted"])
def test_a_name_that_prometheus_would_reject_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=r"name|_total"):
        Registry().read_counter(name, "Bad.", lambda: 0)


def test_a_metric_is_declared_once() -> None:
    registry = Registry()
    registry.read_gauge("things", "Things.", lambda: 0)
    with pytest.raises(ValueError, match="twice"):
        registry.read_gauge("things", "Things again.", lambda: 0)
