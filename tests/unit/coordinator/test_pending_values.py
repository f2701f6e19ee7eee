"""Values of open transactions take effect in the order of their records, not of their markers."""

from sawlog.coordinator.pending_values import PendingValues
from sawlog.core.ids import ProducerId

ONE, TWO = ProducerId(1), ProducerId(2)


def pending(*puts: tuple[ProducerId, str, str]) -> PendingValues[str, str]:
    values: PendingValues[str, str] = PendingValues()
    for put in puts:
        values.put(*put)
    return values


def test_a_commit_returns_the_last_value_of_each_key() -> None:
    values = pending((ONE, "k", "a"), (ONE, "l", "b"), (ONE, "k", "c"), (TWO, "m", "d"))
    assert dict(values.commit(ONE)) == {"k": "c", "l": "b"}
    assert list(values.keys) == ["m"]
    assert values.commit(ONE) == []


def test_an_abort_drops_the_values() -> None:
    values = pending((ONE, "k", "a"), (TWO, "k", "b"))
    values.abort(ONE)
    values.abort(ONE)
    assert values.of_key("k") == {TWO: "b"}
    assert values.commit(TWO) == [("k", "b")]
    assert not values


def test_the_later_record_wins_whichever_transaction_ends_first() -> None:
    values = pending((ONE, "k", "a"), (TWO, "k", "b"))
    assert values.commit(TWO) == [("k", "b")]
    assert "k" in values
    assert values.commit(ONE) == []
    assert "k" not in values
    values = pending((ONE, "k", "a"), (TWO, "k", "b"))
    assert values.commit(ONE) == [("k", "a")]
    assert values.commit(TWO) == [("k", "b")]


def test_a_superseded_value_stays_pending_without_an_effect() -> None:
    values = pending((ONE, "k", "a"))
    values.supersede("k")
    values.supersede("other")
    assert "k" in values
    assert values.commit(ONE) == []
    assert "k" not in values


def test_a_value_after_a_superseded_one_has_an_effect() -> None:
    values = pending((ONE, "k", "a"))
    values.supersede("k")
    values.put(ONE, "k", "b")
    assert values.commit(ONE) == [("k", "b")]


def test_a_removed_key_is_no_longer_pending() -> None:
    values = pending((ONE, "k", "a"), (TWO, "k", "b"), (TWO, "l", "c"))
    values.remove("k")
    assert "k" not in values
    assert values.commit(ONE) == []
    assert values.commit(TWO) == [("l", "c")]
