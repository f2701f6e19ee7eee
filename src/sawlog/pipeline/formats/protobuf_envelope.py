"""Decodes Debezium's change events in Protobuf: their rows, or what they do to which key."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from sawlog.pipeline.formats.change_events import (
    AFTER,
    BEFORE,
    EVENT,
    NO_ROW,
    OP,
    Keys,
    decoded_events,
)
from sawlog.pipeline.formats.decoded import Decoded
from sawlog.pipeline.formats.parsed import FormatError
from sawlog.pipeline.formats.protobuf_decoder import ProtobufDecoder


class _Envelopes:
    """Parses envelopes; raises FormatError if the message is none."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._class = GetMessageClass(descriptor)
        fields = {field.name: field.message_type for field in descriptor.fields}
        self.row = fields.get(AFTER)
        if OP not in fields or fields.get(BEFORE) is None or self.row is None:
            raise FormatError(
                f"not a change event of Debezium: its message has no field {OP},"
                f" or no messages {BEFORE} and {AFTER}"
            )

    def parse(self, payloads: Sequence[bytes]) -> tuple[dict[int, Any], dict[int, str]]:
        """The messages and the reasons for bad ones, by index."""
        messages: dict[int, Any] = {}
        bad: dict[int, str] = {}
        for row, payload in enumerate(payloads):
            try:
                messages[row] = self._class.FromString(payload)
            except DecodeError as error:
                bad[row] = f"not such a Protobuf message: {error}"
        return messages, bad


class ProtobufRows:
    """Decodes the rows `after`; an event without one is bad. Raises FormatError."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._envelopes = _Envelopes(descriptor)
        self._rows = ProtobufDecoder(self._envelopes.row)
        self.columns = self._rows.columns

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        events, bad = self._envelopes.parse(payloads)
        bad |= {at: NO_ROW for at, event in events.items() if not event.HasField(AFTER)}
        places = [at for at in events if at not in bad]
        decoded = self._rows.decode([events[at].after.SerializeToString() for at in places])
        return decoded._replace(bad=bad | {places[at]: why for at, why in decoded.bad.items()})


class ProtobufEvents:
    """Decodes what events do, and the columns `keys` of the rows before and after."""

    def __init__(self, descriptor: Descriptor, keys: Collection[str]) -> None:
        self._envelopes = _Envelopes(descriptor)
        self._keys = ProtobufDecoder(self._envelopes.row, keys)
        self.columns = EVENT

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        events, bad = self._envelopes.parse(payloads)
        found = list(events.values())
        ops = [event.op for event in found]
        return decoded_events(ops, self._keys_of(found, BEFORE), self._keys_of(found, AFTER), bad)

    def _keys_of(self, events: Sequence[Any], field: str) -> Keys:
        places = [at for at, event in enumerate(events) if event.HasField(field)]
        found: dict[int, Mapping[str, Any]] = {place: {} for place in places}
        if len(self._keys.columns):
            rows = [getattr(events[at], field).SerializeToString() for at in places]
            decoded = self._keys.decode(rows)
            good = [place for at, place in enumerate(places) if at not in decoded.bad]
            found.update(zip(good, decoded.rows.to_pylist(), strict=True))
        return found
