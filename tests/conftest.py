"""Fixtures that more than one kind of test uses: a running broker and names for its topics.

`SAWLOG_TEST_TARGET=kafka` runs what uses `broker` against Apache Kafka instead of Sawlog: that is
how the tests themselves are tested.
"""

import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from support.kafka.shared_brokers import Server, SharedBrokers
from support.outages import RecordOutage, outage_recorder
from support.server.broker_cluster import BrokerCluster
from support.server.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from support.pipeline.azure_storage import AzureServer
    from support.pipeline.google_storage import GoogleServer
    from support.pipeline.s3_servers import S3Server

# A machine that is busy with other things proves nothing against a test.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def target() -> str:
    """Which broker is under test: `sawlog` or `kafka`."""
    return os.environ.get("SAWLOG_TEST_TARGET", "sawlog")


@pytest.fixture(scope="session")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBrokers]:
    brokers = SharedBrokers(tmp_path_factory.mktemp("brokers"))
    yield brokers
    brokers.stop()


@pytest.fixture(scope="session")
def broker(target: str, shared_brokers: SharedBrokers) -> Server:
    """One running broker for all tests of a worker; each test uses topics of its own."""
    return shared_brokers.get(target)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """One running ZooKeeper for all tests of a worker; each test uses a chroot of its own."""
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def _shared_broker_cluster(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    cluster = BrokerCluster(tmp_path_factory.mktemp("cluster"), zookeeper.new_chroot())
    yield cluster
    cluster.stop()


@pytest.fixture
def broker_cluster(_shared_broker_cluster: BrokerCluster) -> Iterator[BrokerCluster]:
    """Three brokers for all tests of a worker; a test that stops one starts it again. The topics of
    a test are deleted after it: a drain moves the replicas of all topics."""
    yield _shared_broker_cluster
    _shared_broker_cluster.delete_topics()


@pytest.fixture(scope="session")
def moto() -> Iterator["S3Server"]:
    """An S3 server in memory for all tests of a worker."""
    from support.pipeline.s3_servers import start_moto

    server = start_moto()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def google(moto: "S3Server") -> Iterator["GoogleServer"]:
    """Google Cloud Storage before the S3 server in memory, for all tests of a worker."""
    from support.pipeline.google_storage import google_before

    with google_before(moto.port) as server:
        yield server


@pytest.fixture(scope="session")
def azure() -> Iterator["AzureServer"]:
    """Azure Blob Storage in memory for all tests of a worker."""
    from support.pipeline.azure_storage import running_azure

    with running_azure() as server:
        yield server


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator["S3Server"]:
    """A real S3 server over files for all tests of a worker; takes minutes to build."""
    from support.pipeline.s3_servers import start_versitygw

    server = start_versitygw(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def record_outage(record_property: Callable[[str, object], None]) -> RecordOutage:
    """Record a measured outage: the summary of the tier prints it."""
    return outage_recorder(record_property)


@pytest.fixture
def random_seed() -> int:
    """A seed of this run; a failure shows it, and SAWLOG_SEED brings it back."""
    seed = int(os.environ.get("SAWLOG_SEED") or int.from_bytes(os.urandom(4)))
    print(f"SAWLOG_SEED={seed}")
    return seed


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own."""
    name = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)
    return f"{name[:120]}-{os.urandom(4).hex()}"
