"""The rules for topic names, with Kafka's messages."""

import pytest

from sawlog.cluster.topic_names import check_collision, check_name
from sawlog.core.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A-b_c.D9", "x" * 249, "...", "__internal"])
def test_a_valid_name_is_accepted(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_'"),
        ("a/b", "'a/b' contains one or more characters other than"),
        ("ünïcode", "'ünïcode' contains one or more characters other than"),
        ("a\n", "'a\n' contains one or more characters other than"),
        ("a\0", "'a\0' contains one or more characters other than"),
    ],
)
def test_an_invalid_name_is_rejected(name: str, problem: str) -> None:
    with pytest.raises(KafkaError) as raised:
        check_name(name)
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert raised.value.message.startswith(f"Topic name is invalid: {problem}")


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    with pytest.raises(KafkaError, match=r"Topic 'a\.b' collides with existing topic: a_b"):
        check_collision("a.b", ["x", "a_b"])
    check_collision("a.b", ["ab", "a.b", "a-b"])
    check_collision("ab", ["a_b"])
