"""The environment of the transaction machine: clock, timers, config, and the markers' sender."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sawlog.coordinator.plan import Timers
    from sawlog.core.config import BrokerConfig
    from sawlog.core.ports import Clock
    from sawlog.transactions.transaction import Transaction


class Markers(Protocol):
    """Writes the markers of the prepared transactions of one partition of `__transaction_state`."""

    def send(self, transaction: "Transaction") -> None:
        """Write a marker to every partition of a prepared transaction, however long that takes,
        and call `TransactionMachine.markers_written`; later, never from inside this call."""
        ...

    def cancel(self) -> None:
        """Write no more markers: this broker is no longer the coordinator."""
        ...


@dataclass(frozen=True, slots=True)
class TransactionContext:
    clock: "Clock"
    timers: "Timers"
    config: "BrokerConfig"
    markers: Markers
