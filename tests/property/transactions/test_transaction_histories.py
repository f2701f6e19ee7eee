"""Random requests to the transaction coordinator: no epoch is used twice, and a loaded machine
equals the live one."""

from collections.abc import Callable  # noqa: TC003 (the type of a local variable)
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sawlog.core.errors import KafkaError
from sawlog.transactions.transaction import MAX_EPOCH, Producer
from sawlog.transactions.transaction_state import TransactionState
from support.transactions.transactions import V2, TransactionsWorld

STEPS = ("init", "init expected", "add", "commit", "abort", "markers", "time", "retry")


class Clients:
    """A producer with transaction.version 2, its earlier self, and what they have committed."""

    def __init__(self, first_epoch: int) -> None:
        self.world = TransactionsWorld()
        self.current = self.world.init().producer
        self.world.put(replace(self.world.transaction, epoch=first_epoch))
        self.current = self.current._replace(epoch=first_epoch)
        self.former = self.current
        self.begun: list[Producer] = []

    def step(self, name: str, former: bool) -> None:
        producer = self.former if former else self.current
        was_open = self.world.state is TransactionState.ONGOING
        steps: dict[str, Callable[[], object]] = {
            "init": self._init,
            "init expected": lambda: self._init(producer),
            "add": lambda: self.world.add(producer, 0),
            "commit": lambda: self._end(producer, is_commit=True),
            "abort": lambda: self._end(producer, is_commit=False),
            "markers": self.world.write_markers,
            "time": lambda: self.world.pass_time(20_000),
            "retry": lambda: self.world.end(producer, version=V2),
        }
        try:
            steps[name]()
        except KafkaError:
            return
        finally:
            if self.world.state is TransactionState.ONGOING and not was_open:
                self.begun.append(self.world.transaction.producer)

    def _init(self, expected: Producer | None = None) -> None:
        reply = self.world.init(expected=expected)
        if reply.error == 0:
            self.former, self.current = self.current, reply.producer

    def _end(self, producer: Producer, *, is_commit: bool) -> None:
        answer = self.world.end(producer, is_commit=is_commit)
        if isinstance(answer, Producer) and producer == self.current:
            self.former, self.current = producer, answer


@given(
    st.sampled_from([0, MAX_EPOCH - 3]),
    st.lists(st.tuples(st.sampled_from(STEPS), st.booleans()), max_size=40),
)
def test_an_epoch_has_one_transaction_and_the_log_has_all(
    first_epoch: int, steps: list[tuple[str, bool]]
) -> None:
    clients = Clients(first_epoch)
    for name, former in steps:
        clients.step(name, former)
        live = {
            key: replace(each, last_epoch=-1)
            for key, each in clients.world.machine.transactions.items()
        }
        if clients.world.written[1:]:
            assert clients.world.rebuilt().transactions == live
    assert len(set(clients.begun)) == len(clients.begun), "an epoch was used twice"
    assert all(producer.epoch < MAX_EPOCH for producer in clients.begun)
