"""The exactly-once sink in Spark: streams over several runs, and refusals."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from support.kafka.shared_brokers import EITHER_BROKER, QUICK_GROUPS, Server, SharedBrokers
from support.pipeline.exactly_once_copy import Copy
from support.pipeline.topics import Topics, making

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", params=EITHER_BROKER)
def server(request: pytest.FixtureRequest, shared_brokers: SharedBrokers) -> Server:
    return shared_brokers.get(request.param, QUICK_GROUPS)


@pytest.fixture
def topics(server: Server) -> Iterator[Topics]:
    with making(server.bootstrap) as found:
        yield found


@pytest.fixture
def copy(spark: "SparkSession", topics: Topics, server: Server, tmp_path: Path) -> Copy:
    return Copy(spark, topics, server, tmp_path)


def test_a_stream_is_copied_over_several_batches_and_runs(copy: Copy) -> None:
    copy.topics.write(copy.source, 30)
    copy.topics.write(copy.source, 30, 1, first=30)
    copy.run(copy.rows(maxOffsetsPerTrigger=25))
    assert copy.committed() == [*range(60)]
    copy.topics.write(copy.source, 10, first=60)
    copy.run(copy.rows().repartition(3))  # the number of tasks may change between batches
    assert copy.committed() == [*range(70)]


def test_a_rolled_back_checkpoint_stops_the_query_with_the_reason(
    copy: Copy, tmp_path: Path
) -> None:
    copy.topics.write(copy.source, 20)
    copy.run(copy.rows(maxOffsetsPerTrigger=10))
    for name in ("commits", "offsets"):
        for number in (0, 1) if name == "commits" else (1,):
            (tmp_path / "checkpoint" / name / str(number)).unlink()
            (tmp_path / "checkpoint" / name / f".{number}.crc").unlink(missing_ok=True)
    with pytest.raises(StreamingQueryException, match="The checkpoint was rolled back"):
        copy.run(copy.rows(maxOffsetsPerTrigger=10))
    assert copy.committed() == [*range(20)]


def test_a_missing_marker_topic_stops_the_query(copy: Copy) -> None:
    copy.topics.write(copy.source, 1)
    with pytest.raises(StreamingQueryException, match="no-such-topic"):
        copy.run(copy.rows(), markerTopic="no-such-topic")


def test_a_batch_query_is_refused(copy: Copy, spark: "SparkSession") -> None:
    with pytest.raises(PySparkException, match="'exactlyOnce' is for streams"):
        copy.write_batch(spark.createDataFrame([("x",)], "value string"))
