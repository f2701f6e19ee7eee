"""The time in which a consumer may deliver without hearing from ZooKeeper."""

from sawlog.client.zookeeper_consumer.delivery_lease import DeliveryLease


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def lease_of_six_seconds() -> tuple[DeliveryLease, Clock]:
    clock = Clock()
    return DeliveryLease(6_000, clock), clock


def test_without_an_answer_there_is_no_lease() -> None:
    lease, _ = lease_of_six_seconds()
    assert not lease.is_valid
    assert lease.is_renewal_due


def test_a_lease_counts_from_the_sending_of_the_answered_request() -> None:
    lease, clock = lease_of_six_seconds()
    sent_s = clock.now_s
    clock.now_s += 3.5  # a slow answer
    lease.answered(sent_s)
    assert lease.is_valid
    assert lease.is_renewal_due
    clock.now_s = sent_s + 4.0
    assert not lease.is_valid, "it ends two seconds before the session can"


def test_a_renewal_is_due_after_a_third_of_the_timeout() -> None:
    lease, clock = lease_of_six_seconds()
    lease.answered(clock.now_s)
    assert lease.renewal_ms == 2_000
    clock.now_s += 2.0
    assert lease.is_renewal_due
    lease.answered(clock.now_s)
    assert not lease.is_renewal_due


def test_a_late_answer_does_not_shorten_the_lease() -> None:
    lease, clock = lease_of_six_seconds()
    lease.answered(clock.now_s)
    lease.answered(clock.now_s - 5.0)
    assert lease.renewal_ms == 2_000
