"""`sawlog cluster` on a cluster of one broker; Sawlog and Apache Kafka."""

from support.cli.command_line import Sawlog


def test_one_broker_is_a_healthy_cluster_with_nowhere_to_move(sawlog: Sawlog, topic: str) -> None:
    status = sawlog.json("cluster", "status")
    assert status["healthy"] is True
    (broker,) = status["brokers"]
    assert broker["up"] is True
    assert broker["leaders"] == broker["replicas"] >= 3
    sawlog("cluster", "elect", "--topic", topic)
    assert "no partition needs an election" in sawlog.stderr
    scope = ("--topic", topic)
    sawlog("cluster", "reassign", *scope, "--to", str(broker["broker"]), "--yes")
    assert "nothing to move" in sawlog.stderr
    sawlog("cluster", "reassign", *scope, "--replicas", "2", "--yes", code=1)
    assert f"{topic}-0 needs 2 replicas; the brokers for them are" in sawlog.stderr
    sawlog("cluster", "drain", str(broker["broker"]), "--yes", code=1)
    assert "nothing was changed" in sawlog.stderr
