"""ListTransactionsResponse: written by tools/generate_messages.py, not by hand."""

from typing import ClassVar

from sawlog.protocol.schema import Message, Schema, field


class TransactionState(Message):
    transactional_id: str = field("string", "0+", default="")
    producer_id: int = field("int64", "0+", default=0)
    transaction_state: str = field("string", "0+", default="")


class ListTransactionsResponse(Message):
    SCHEMA: ClassVar[Schema] = Schema("response", "0-2", "0+", api_key=66)

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    unknown_state_filters: list[str] = field("[]string", "0+", default_factory=list)
    transaction_states: list[TransactionState] = field(
        "[]struct", "0+", default_factory=list, of=TransactionState
    )
