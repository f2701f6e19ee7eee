"""Measured values, their medians and ratios, and verdicts on targets. No IO."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.brokers import Name
from bench.workloads import BY_NAME, WORKLOADS, Kind, Metric, Target, Workload

Values = dict[str, dict[str, dict[str, list[float]]]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and the measured value, which is a ratio unless the target is absolute."""

    workload: Workload
    target: Target
    measured: float | None
    reached: bool | None


@dataclass(slots=True)
class Results:
    """workload name → broker name → metric → one value per round."""

    machine: dict[str, str] = field(default_factory=dict)
    day: str = ""
    values: Values = field(default_factory=dict)

    def add(self, workload: str, broker: str, metric: Metric, value: float) -> None:
        per_broker = self.values.setdefault(workload, {})
        per_broker.setdefault(broker, {}).setdefault(metric, []).append(value)

    def all(self, workload: str, broker: str, metric: Metric) -> list[float]:
        return self.values.get(workload, {}).get(broker, {}).get(metric, [])

    def median(self, workload: str, broker: str, metric: Metric) -> float | None:
        values = self.all(workload, broker, metric)
        return statistics.median(values) if values else None

    def ratio(self, workload: str, metric: Metric) -> float | None:
        """The median of the rounds' ratios, Sawlog's value over Kafka's.

        The two runs of a round follow each other, so a slower machine affects both. None if a value
        is missing or one of Kafka's is zero.
        """
        ours = self.all(workload, Name.SAWLOG, metric)
        theirs = self.all(workload, Name.KAFKA, metric)
        if not ours or len(ours) != len(theirs) or not all(theirs):
            return None
        return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))

    def spread(self, workload: str, broker: str, metric: Metric) -> float | None:
        """The range of the rounds as a share of their median."""
        values = self.all(workload, broker, metric)
        middle = self.median(workload, broker, metric)
        return (max(values) - min(values)) / middle if middle else None

    def rounds(self, workload: str) -> int:
        """The number of values of each metric."""
        metrics = [metric for each in self.values[workload].values() for metric in each.values()]
        return max(map(len, metrics))

    def of_all_brokers(self, workload: str, metric: Metric) -> list[float]:
        brokers = self.values[workload]
        return [value for broker in brokers for value in self.all(workload, broker, metric)]

    def of_all_runs(self, metric: Metric) -> float | None:
        """The median over all runs of all workloads."""
        values = [value for work in self.values for value in self.of_all_brokers(work, metric)]
        return statistics.median(values) if values else None

    def measured(self) -> list[Workload]:
        return [workload for workload in WORKLOADS if workload.name in self.values]

    def of(self, *kinds: Kind) -> list[Workload]:
        return [workload for workload in self.measured() if workload.kind in kinds]

    def verdicts(self) -> Iterator[Verdict]:
        for workload in self.measured():
            for target in workload.targets:
                yield self.verdict(workload.name, target)

    def verdict(self, name: str, target: Target) -> Verdict:
        workload = BY_NAME[name]
        ours = self.median(name, Name.SAWLOG, target.metric)
        measured = ours if target.absolute else self.ratio(name, target.metric)
        reached: bool | None = None
        if measured is not None:
            reached = measured >= target.bound if target.at_least else measured <= target.bound
        elif ours is not None:
            # Kafka's value in whole milliseconds may be zero: then only the medians can be
            # compared.
            theirs = self.median(name, Name.KAFKA, target.metric)
            reached = None if theirs is None else ours <= target.bound * theirs
        return Verdict(workload, target, measured, reached)

    def as_json(self) -> dict[str, Any]:
        return {"machine": self.machine, "day": self.day, "values": self.values}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Results":
        return cls(stored["machine"], stored["day"], stored["values"])
