"""The ratios as an SVG chart for light and dark backgrounds. No IO.

Every bar is the ratio of Sawlog's median to Apache Kafka's; the dashed line is Kafka, the short
line across a bar is the target.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from bench.results import Results
from bench.workloads import Kind, Metric

WIDTH = 760
BAR_LEFT, BAR_RIGHT, VALUE_RIGHT = 250, 680, 736
ROW_HEIGHT, BAR_HEIGHT = 26, 14
GROUP_GAP = 46
HEAD = 64
LEAST_SCALE = 1.5
MOST_SCALE = 3.0

NOTE = (
    "Sawlog's median over Kafka's. Dashed: Kafka = 1. Thick line: the target; "
    "green reached, orange not, grey none set."
)
LABELS = {
    "produce-6": "produce 100 B, 6 partitions",
    "produce-1": "produce 100 B, 1 partition",
    "produce-all": "produce 1 KB, acks=all, flushed",
    "single": "one record a request",
    "consume": "consume, 6 partitions",
    "consume-java": "consume, ConsumerPerformance",
    "commits": "offset commits, flushed",
    **{
        f"rebalance-{protocol}-{members}": f"{members} members, {protocol} protocol"
        for protocol in ("classic", "consumer")
        for members in (2, 20, 200)
    },
    "latency-1": "p99 at 2,000/s, acks=1",
    "latency-all": "p99 at 2,000/s, acks=all, flushed",
}
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .group { font-weight: 600; }
  .label, .value { text-anchor: end; }
  .note { fill: #59636e; font-size: 12px; }
  .paper { fill: #ffffff; stroke: #d1d9e0; }
  .reached { fill: #1a7f64; }
  .missed { fill: #bc4c00; }
  .neutral { fill: #6e7781; }
  .kafka { stroke: #59636e; stroke-dasharray: 4 3; }
  .target { stroke: #1f2328; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .note { fill: #9198a1; }
    .paper { fill: #0d1117; stroke: #3d444d; }
    .reached { fill: #3fb68b; }
    .missed { fill: #f0883e; }
    .neutral { fill: #9198a1; }
    .kafka { stroke: #9198a1; }
    .target { stroke: #f0f6fc; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    ratio: float
    target: float | None
    reached: bool | None


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    bars: tuple[Bar, ...]


def groups(results: Results) -> list[Group]:
    """The bars of the chart: throughput, CPU, latency and start."""
    loads = _names(results, Kind.PRODUCE, Kind.CONSUME, Kind.CONSUME_JAVA, Kind.COMMIT)
    paced = _names(results, Kind.PACE_LIBRDKAFKA)
    rebalances = _names(results, Kind.REBALANCE)
    small = [
        ("start", Metric.FIRST_ANSWER, "start to first answer"),
        ("start", Metric.RESIDENT_IDLE, "resident memory, idle"),
        ("start", Metric.RESIDENT_AFTER, "resident memory, after the runs"),
        *((name, Metric.P99, LABELS[name]) for name in paced),
    ]
    made = [
        Group("Throughput (more is better)", _bars(results, _named(loads, Metric.RATE))),
        Group(
            "CPU of the broker (less is better)", _bars(results, _named(loads, Metric.BROKER_CPU))
        ),
        Group(
            "Rebalance of a group (less is better)",
            _bars(results, _named(rebalances, Metric.REBALANCE)),
        ),
        Group("Start, memory, latency (less is better)", _bars(results, small)),
    ]
    return [group for group in made if group.bars]


def _names(results: Results, *kinds: Kind) -> list[str]:
    return [work.name for work in results.of(*kinds)]


def _named(names: Iterable[str], metric: Metric) -> list[tuple[str, Metric, str]]:
    return [(name, metric, LABELS[name]) for name in names]


def _bars(results: Results, wanted: Iterable[tuple[str, Metric, str]]) -> tuple[Bar, ...]:
    bars = []
    targets = {
        (work.name, target.metric): target for work in results.measured() for target in work.targets
    }
    for name, metric, label in wanted:
        ratio = results.ratio(name, metric)
        if ratio is None:
            continue
        target = targets.get((name, metric))
        reached = results.verdict(name, target).reached if target else None
        bars.append(Bar(label, ratio, target.bound if target else None, reached))
    return tuple(bars)


def draw(shown: list[Group]) -> str:
    """The SVG document."""
    longest = max((bar.ratio for group in shown for bar in group.bars), default=1.0)
    scale = (BAR_RIGHT - BAR_LEFT) / min(MOST_SCALE, max(LEAST_SCALE, longest * 1.05))
    body = [_text(20, 30, "Sawlog beside Apache Kafka 4.3.0", kind="title"), _text(20, 49, NOTE)]
    y = HEAD
    for group in shown:
        body += _group(group, y, scale)
        y += GROUP_GAP + ROW_HEIGHT * len(group.bars)
    size = f'width="{WIDTH}" height="{y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" {size} role="img">'
    paper = f'<rect class="paper" {size} rx="6"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", paper, *body, "</svg>", ""])


def _group(group: Group, top: int, scale: float) -> list[str]:
    first = top + 30
    bottom = first + ROW_HEIGHT * len(group.bars) - 4
    lines = [_text(20, top + 20, group.title, kind="group")]
    for number, bar in enumerate(group.bars):
        lines += _bar(bar, first + ROW_HEIGHT * number, scale)
    return [*lines, _upright("kafka", BAR_LEFT + scale, first - 4, bottom)]


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    length = max(2.0, min(bar.ratio * scale, BAR_RIGHT - BAR_LEFT))
    kind = {True: "reached", False: "missed", None: "neutral"}[bar.reached]
    size = f'width="{length:.1f}" height="{BAR_HEIGHT}"'
    baseline = y + BAR_HEIGHT - 3
    lines = [
        _text(BAR_LEFT - 12, baseline, bar.label, kind="label"),
        f'<rect class="{kind}" x="{BAR_LEFT}" y="{y}" {size} rx="2"/>',
    ]
    if bar.target is not None:
        target_at = BAR_LEFT + bar.target * scale
        lines.append(_upright("target", target_at, y - 3, y + BAR_HEIGHT + 3))
    value = f"{bar.ratio:.2f}" if bar.ratio >= 0.1 else f"{bar.ratio:.3f}"
    return [*lines, _text(VALUE_RIGHT, baseline, value, kind="value")]


def _text(x: float, y: int, text: str, kind: str = "note") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}">{escape(text)}</text>'


def _upright(kind: str, x: float, top: int, bottom: int) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
