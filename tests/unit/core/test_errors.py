"""Error codes and the exceptions that carry them."""

from sawlog.core.errors import RETRIABLE, ErrorCode, KafkaError


def test_codes_are_numbered_without_gaps_from_unknown_server_error() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


def test_an_error_has_a_code_and_a_message() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "segment.bytes is too small")
    assert error.code is ErrorCode.INVALID_CONFIG
    assert error.message == str(error) == "segment.bytes is too small"


def test_an_error_without_a_message_shows_its_code() -> None:
    error = KafkaError(ErrorCode.NOT_CONTROLLER)
    assert str(error) == "NOT_CONTROLLER"
    assert error.message == ""


def test_retriable_errors_are_kafkas() -> None:
    assert KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER).is_retriable
    assert not KafkaError(ErrorCode.MESSAGE_TOO_LARGE).is_retriable
    assert ErrorCode.NONE not in RETRIABLE


def test_a_long_message_is_shortened_to_fit_into_a_response() -> None:
    error = KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"There is no member {'日' * 32_000}.")
    assert error.message.startswith("There is no member 日")
    assert len(error.message.encode()) < 0x7FFF
