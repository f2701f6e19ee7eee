"""The line that a started broker prints on standard output, for people and for programs."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ReadyLine:
    """`str` gives the sentence, `fields` the JSON object.

    `seconds` is the time since the start of the process, `recovery_seconds` the part of it for
    opening the logs.
    """

    node_id: int
    version: str
    listen: str
    advertised: str
    data: str
    partitions: int
    recovered_partitions: int  # after an unclean stop
    recovery_seconds: float
    metrics: str | None
    seconds: float

    def __str__(self) -> str:
        details = [f"version {self.version}", f"data in {self.data}"]
        if self.advertised != self.listen:
            details.append(f"advertised as {self.advertised}")
        details.append(_counted(self.partitions))
        if self.recovered_partitions:
            details.append(
                f"{_counted(self.recovered_partitions)} recovered after an unclean stop"
                f" in {self.recovery_seconds:.2f} s"
            )
        if self.metrics is not None:
            details.append(f"metrics on {self.metrics}")
        return (
            f"sawlog broker {self.node_id} ready on {self.listen} in {self.seconds:.2f} s"
            f" ({', '.join(details)})"
        )

    def fields(self) -> dict[str, Any]:
        return asdict(self)


def _counted(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"
