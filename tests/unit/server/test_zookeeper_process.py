"""The configuration of a ZooKeeper server on this machine."""

from pathlib import Path

from sawlog.server.address import Address
from sawlog.server.zookeeper_process import ZooKeeperServer


def test_a_session_ends_at_most_a_tenth_of_a_second_late(tmp_path: Path) -> None:
    """ZooKeeper rounds the end of a session up to a multiple of its tick; a short tick does not
    allow shorter sessions."""
    config = ZooKeeperServer(tmp_path, Address("127.0.0.1", 2181)).write_config()
    settings = dict(line.split("=") for line in config.read_text().splitlines())
    assert int(settings["tickTime"]) <= 100
    assert (settings["minSessionTimeout"], settings["maxSessionTimeout"]) == ("1000", "40000")
