"""Connections are counted in all and by address."""

from sawlog.server.connection_limits import Limits
from sawlog.server.connection_quota import Admission


def test_the_total_is_bounded() -> None:
    admission = Admission(Limits(connections=2))
    assert admission.admit("10.0.0.1") is None
    assert admission.admit("10.0.0.2") is None
    assert admission.admit("10.0.0.3") is not None
    admission.leave("10.0.0.1")
    assert admission.admit("10.0.0.3") is None


def test_one_address_cannot_take_the_room_of_others() -> None:
    admission = Admission(Limits(connections_per_ip=1))
    assert admission.admit("10.0.0.1") is None
    assert admission.admit("10.0.0.1") is not None
    assert admission.admit("10.0.0.2") is None
    assert (admission.total, admission.refused) == (2, 1)
