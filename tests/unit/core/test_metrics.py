"""The registry, and the text it renders, read back by a parser that forgives nothing."""

import re
from typing import NamedTuple

import pytest

from sawlog.core.metrics import Histogram, Registry

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:\{(?P<labels>[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*")*)\})?'
    r" (?P<value>[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf)|NaN)"
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


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
            assert match["name"].removeprefix(family) in _SUFFIXES[parsed.kinds[family]]
            labels = frozenset(
                (name, re.sub(r"\\.", lambda found: _UNESCAPED[found.group()], value))
                for name, value in _LABEL.findall(match["labels"] or "")
            )
            assert (match["name"], labels) not in parsed.values
            parsed.values[match["name"], labels] = float(match["value"])
    return parsed


def test_counters_and_gauges_are_rendered_with_their_values() -> None:
    registry = Registry()
    counter = registry.counter("requests_total", "Requests.")
    gauge = registry.gauge("connections", "Open connections.")
    counter.add()
    counter.value += 2
    gauge.set(5)
    gauge.add(-1.5)
    parsed = parse(registry.render())
    assert parsed.kinds == {"requests_total": "counter", "connections": "gauge"}
    assert (parsed.value("requests_total"), parsed.value("connections")) == (3, 3.5)


def test_label_values_survive_whatever_is_in_them() -> None:
    registry = Registry()
    family = registry.counters("requests_total", "By api\nand \\ more.", ("api", "topic"))
    odd = 'a "quoted" \\ back\\nslash\nand a line, {braces} = ünïcode'
    family.labels("Fetch", odd).add(7)
    family.labels("Fetch", "plain").add()
    assert family.labels("Fetch", odd) is family.labels("Fetch", odd)
    assert parse(registry.render()).value("requests_total", api="Fetch", topic=odd) == 7


def test_a_removed_combination_is_rendered_no_more() -> None:
    registry = Registry()
    family = registry.gauges("lag", "Lag.", ("group",))
    family.labels("a").set(1)
    family.remove("a")
    assert parse(registry.render()).values == {}


def test_a_histogram_counts_each_value_in_all_buckets_that_hold_it() -> None:
    registry = Registry()
    histogram = registry.histogram("latency_seconds", "Latency.", (0.1, 1, 10))
    for value in (0.05, 0.1, 0.5, 10, 99):
        histogram.observe(value)
    parsed = parse(registry.render())
    counts = [parsed.value("latency_seconds_bucket", le=le) for le in ("0.1", "1", "10", "+Inf")]
    assert counts == [2, 3, 4, 5]
    assert parsed.value("latency_seconds_count") == 5
    assert parsed.value("latency_seconds_sum") == pytest.approx(109.65)


def test_histograms_can_have_labels() -> None:
    registry = Registry()
    registry.histograms("size_bytes", "Sizes.", ("api",), (10, 100)).labels("Produce").observe(50)
    parsed = parse(registry.render())
    assert parsed.value("size_bytes_bucket", api="Produce", le="10") == 0
    assert parsed.value("size_bytes_bucket", api="Produce", le="100") == 1


def test_what_is_read_is_read_when_it_is_rendered() -> None:
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


@pytest.mark.parametrize("name", ["", "9lives", "a-b", "räksmörgås", "le", "counted"])
def test_a_name_that_prometheus_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"name|_total"):
        Registry().counter(name, "Bad.")


def test_a_metric_is_declared_once() -> None:
    registry = Registry()
    registry.gauge("things", "Things.")
    with pytest.raises(ValueError, match="twice"):
        registry.gauge("things", "Things again.")


def test_labels_and_bounds_are_checked() -> None:
    with pytest.raises(ValueError, match="labels"):
        Registry().gauges("things", "Things.", ("a", "b")).labels("one")
    with pytest.raises(ValueError, match="rising"):
        Histogram((1, 1))
