"""DescribeTransactions 0, ListTransactions 0 to 2: what the coordinator knows (KIP-664).

ListTransactions filters by state and producer id, by duration from version 1 (KIP-994) and by a
regular expression (RE2) from version 2 (KIP-1152). A broker lists the transactional ids that it
coordinates.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import re2

from sawlog.broker.gather_replies import gather
from sawlog.coordinator.plan import Plan
from sawlog.core.errors import ErrorCode, KafkaError
from sawlog.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
)
from sawlog.protocol.messages.describe_transactions_response import (
    TransactionState as DescribedTransaction,
)
from sawlog.protocol.messages.list_transactions_response import ListTransactionsResponse
from sawlog.protocol.messages.list_transactions_response import TransactionState as Listing
from sawlog.transactions.transaction_records import by_topic
from sawlog.transactions.transaction_state import BY_TITLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sawlog.broker.gather_replies import Reply
    from sawlog.broker.request import Request
    from sawlog.broker.transaction_coordinator import TransactionCoordinator
    from sawlog.coordinator.runtime import CoordinatorRuntime
    from sawlog.core.ports import Clock, Timer
    from sawlog.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
    from sawlog.protocol.messages.list_transactions_request import ListTransactionsRequest
    from sawlog.transactions.transaction import Transaction
    from sawlog.transactions.transaction_machine import TransactionMachine

    class TransactionAdminContext(Protocol):
        transactions: TransactionCoordinator
        clock: Clock
        timer: Timer


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


# DescribeTransactions


def describe_transactions(
    context: "TransactionAdminContext", request: "Request", message: "DescribeTransactionsRequest"
) -> None:
    def reply(found: list[DescribedTransaction]) -> None:
        request.reply(DescribeTransactionsResponse(transaction_states=found))

    queries = [partial(_describe, context, name) for name in message.transactional_ids]
    gather(queries, reply, context.timer)


def _describe(
    context: "TransactionAdminContext", name: str, reply: "Reply[DescribedTransaction]"
) -> None:
    def refuse(error: KafkaError) -> None:
        reply(DescribedTransaction(error_code=int(error.code), transactional_id=name))

    if not name:
        refuse(KafkaError(ErrorCode.INVALID_REQUEST))
        return
    context.transactions.ask(
        name, lambda machine: machine.describe(name), lambda found: reply(_described(found)), refuse
    )


def _described(transaction: "Transaction") -> DescribedTransaction:
    return DescribedTransaction(
        0,
        transaction.transactional_id,
        transaction.state.title,
        transaction.timeout_ms,
        transaction.start_ms,
        transaction.producer_id,
        transaction.epoch,
        [TopicData(topic, indexes) for topic, indexes in by_topic(transaction.partitions).items()],
    )


# ListTransactions


def list_transactions(
    context: "TransactionAdminContext", request: "Request", message: "ListTransactionsRequest"
) -> ListTransactionsResponse | None:
    unknown = [title for title in message.state_filters if title not in BY_TITLE]
    try:
        context.transactions.check_loaded()
        selects = _selection(message, context.clock.now_ms())
    except KafkaError as error:
        return ListTransactionsResponse(error_code=int(error.code))

    def reply(found: list[list[Listing]]) -> None:
        request.reply(
            ListTransactionsResponse(
                unknown_state_filters=unknown,
                transaction_states=[each for some in found for each in some],
            )
        )

    runtimes = context.transactions.runtimes
    gather(
        [partial(_list, runtimes[index], selects) for index in sorted(runtimes)],
        reply,
        context.timer,
    )
    return None


def _selection(message: "ListTransactionsRequest", now_ms: int) -> "Callable[[Transaction], bool]":
    """Return the filter of the request; INVALID_REGULAR_EXPRESSION if its pattern is wrong."""
    states = {BY_TITLE[title] for title in message.state_filters if title in BY_TITLE}
    producers = frozenset(message.producer_id_filters)
    duration_ms = message.duration_filter
    pattern = _compiled(message.transactional_id_pattern)

    def selects(transaction: "Transaction") -> bool:
        return (
            (not producers or transaction.producer_id in producers)
            and (not message.state_filters or transaction.state in states)
            and (duration_ms < 0 or now_ms - transaction.start_ms > duration_ms)
            and (pattern is None or pattern.fullmatch(transaction.transactional_id) is not None)
        )

    return selects


def _compiled(pattern: str | None) -> Any:
    if not pattern:
        return None
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"TransactionalIdPattern `{pattern}` is not a valid regular expression",
        ) from error


def _list(
    runtime: "CoordinatorRuntime[TransactionMachine]",
    selects: "Callable[[Transaction], bool]",
    reply: "Reply[list[Listing]]",
) -> None:
    def listed() -> Plan[list[Listing]]:
        return Plan(
            [
                Listing(each.transactional_id, each.producer_id, each.state.title)
                for each in runtime.machine.transactions.values()
                if selects(each)
            ]
        )

    runtime.run(listed, reply, lambda _: reply([]))
