"""Every message in every version round-trips, encoded as bytes or as parts."""

from random import Random

import pytest

from sawlog.core.ports import FileSlice
from sawlog.protocol.codec import decode, decoder, encode, parts_encoder
from sawlog.protocol.schema import Message
from support.protocol.messages import all_messages, random_message, versions_of

ALL_MESSAGES = all_messages()
ids = [cls.__name__ for cls in ALL_MESSAGES]


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=ids)
def test_a_message_round_trips(cls: type[Message]) -> None:
    for version in versions_of(cls):
        random = Random(f"round trip {cls.__name__} {version}")
        for _ in range(3):
            message = random_message(cls, version, random)
            encoded = encode(message, version)
            padded = memoryview(b"before" + encoded + b"after")
            assert decoder(cls, version)(padded, 6) == (message, 6 + len(encoded))


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=ids)
def test_joined_parts_equal_the_encoded_message(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = random_message(cls, version, Random(f"parts {cls.__name__} {version}"))
        parts = parts_encoder(cls, version)(message)
        assert b"".join(part for part in parts if not isinstance(part, FileSlice)) == encode(
            message, version
        )


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=ids)
def test_a_message_of_defaults_round_trips(cls: type[Message]) -> None:
    for version in versions_of(cls):
        assert decode(cls, version, encode(cls(), version)) == cls()
