"""SIGKILL at random moments under load: acknowledged records are there, in order, exactly once.

The page cache survives the process, so this holds for acks=1 as well as for acks=all.
"""

from pathlib import Path
from random import Random

import pytest

from sawlog.protocol.messages.init_producer_id_request import InitProducerIdRequest
from support.client.load import IdempotentLoad, RawLoad
from support.client_libraries.confluent_library import Confluent
from support.protocol.wire import Wire
from support.same import check_same
from support.server.broker_process import SawlogServer
from support.tiers import rounds

PARTITIONS = 3
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20), "index.interval.bytes": "1000"}
SIGTERM_SHARE = 0.2  # some rounds end with a clean stop
ACKS = {"raw-leader": 1, "raw-all": -1}


@pytest.mark.parametrize("kills", rounds(fast=4, long=12, soak=1_000))
def test_acknowledged_records_are_neither_lost_nor_duplicated(
    tmp_path: Path, kills: int, random_seed: int
) -> None:
    random = Random(random_seed)
    server = SawlogServer(tmp_path)
    library = Confluent(server.bootstrap)
    library.create_topic("idempotent", PARTITIONS, SMALL_SEGMENTS)
    for topic in ACKS:
        library.create_topic(topic, 1, SMALL_SEGMENTS)
    loads = [RawLoad((server.host, server.port), topic, acks) for topic, acks in ACKS.items()]
    idempotent = IdempotentLoad(server.bootstrap, "idempotent", PARTITIONS)
    producer_ids: list[int] = []
    made: list[str] = []
    try:
        for number in range(kills):
            idempotent.run_until(idempotent.acknowledged + random.randrange(1, 3_000))
            if random.random() < 0.5:  # so that some kills follow these responses at once
                producer_ids.append(new_producer_id(server))
                library.create_topic(f"made-in-round-{number}")
                made.append(f"made-in-round-{number}")
            for load in loads:
                load.broker_went()
            if random.random() < SIGTERM_SHARE:
                server.stop()
            else:
                server.kill()
            server.start()
            for load in loads:
                load.broker_came()
        idempotent.finish()
        for load in loads:
            load.finish()
        assert len(set(producer_ids)) == len(producer_ids), "a producer id was assigned twice"
        # Every acknowledged topic survived the kill right after its creation.
        assert set(made) <= library.admin().list_topics(timeout=30).topics.keys()
        check_idempotent(library, idempotent)
        for load in loads:
            check_raw(library, load)
    finally:
        server.kill()


def new_producer_id(server: SawlogServer) -> int:
    with Wire(server.host, server.port) as wire:
        answer = wire.ask(InitProducerIdRequest(transactional_id=None), 4)
    assert answer is not None
    return int(answer.producer_id)


def check_idempotent(library: Confluent, load: IdempotentLoad) -> None:
    for partition, count in enumerate(load.sent):
        assert library.bounds(load.topic, partition) == (0, count)
        rows = library.consume(load.topic, count, partition=partition)
        check_same([row.value for row in rows], [b"%d" % number for number in range(count)])


def check_raw(library: Confluent, load: RawLoad) -> None:
    low, high = library.bounds(load.topic)
    assert low == 0
    values = [row.value for row in library.consume(load.topic, high)]
    assert load.errors == []
    assert load.acknowledged
    found = [values[at] if at < high else None for at, _ in load.acknowledged]
    check_same(found, [value for _, value in load.acknowledged])
    distinct = len(set(values))
    assert distinct == high, "a record is in the log twice"
