"""Assembly of a broker from its ports and its configuration."""

import dataclasses

from sawlog.broker.assembly import Ports, assemble
from sawlog.broker.broker import Broker
from sawlog.cluster.broker_registration import Registration
from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.core.config import BrokerConfig
from sawlog.core.ids import NodeId
from sawlog.core.ports import DiskError
from sawlog.core.store import Store
from sawlog.simulation.simulated_broker import SimulatedMachine
from sawlog.simulation.simulated_network import SimulatedNetwork
from sawlog.simulation.simulated_store import StoreService
from sawlog.simulation.stepped_cleaner import SteppedCleaner
from sawlog.storage.log_directory import WrongOwner
from support.broker.groups import commit, machine_with_groups
from support.broker.requests import NAMED, batch_of, fetch, produce
from support.cluster.member import MemberHarness


def ports_of(machine: SimulatedMachine, store: Store) -> Ports:
    return Ports(
        machine.schedule,
        machine.scope,
        machine.random,
        machine.disk,
        store,
        SimulatedNetwork(machine.schedule, 1).peers("host", machine.scope),
        start_cleaner=lambda _: SteppedCleaner(machine.disk, machine.scope),
    )


def assembled(machine: SimulatedMachine, node_id: int, applied: list[Exception | None]) -> Broker:
    ports = ports_of(machine, EmbeddedStore(machine.disk, machine.scope))
    registration = Registration(NodeId(node_id), "host", 9092)
    return assemble(ports, BrokerConfig({}), registration, applied.append)


def attributes(broker: Broker) -> dict[str, set[str]]:
    """Return the names of all attributes that are set in a broker and its components."""
    fields = dataclasses.fields(broker.components)
    parts = {field.name: getattr(broker.components, field.name) for field in fields}
    return {
        name: {attribute for attribute in dir(part) if not attribute.startswith("__")}
        for name, part in {"broker": broker, **parts}.items()
    }


def test_no_attribute_appears_after_construction() -> None:
    new = attributes(assembled(SimulatedMachine(1), 1, []))
    machine = machine_with_groups()
    machine.ask(produce(batch_of(machine, b"a")), NAMED)
    machine.ask(fetch(0), NAMED)
    commit(machine, "g", {("t", 0): 1})
    used = machine.broker
    machine.stop()
    assert attributes(used) == new


def test_first_image_reports_that_the_broker_can_serve() -> None:
    machine = SimulatedMachine(1)
    applied: list[Exception | None] = []
    broker = assembled(machine, 1, applied)
    assert applied == []
    broker.start()
    assert machine.schedule.run(lambda: bool(applied))
    assert applied == [None]


def test_first_image_reports_a_directory_of_another_broker() -> None:
    machine = SimulatedMachine(1)
    machine.boot()
    machine.stop()
    applied: list[Exception | None] = []
    assembled(machine, 2, applied).start()
    assert machine.schedule.run(lambda: bool(applied))
    assert isinstance(applied[0], WrongOwner)


def in_cluster(
    machine: SimulatedMachine, service: StoreService, applied: list[Exception | None]
) -> Broker:
    """Return broker 1 of a cluster whose store is not in its data directory."""
    ports = ports_of(machine, service.connect())
    registration = Registration(NodeId(1), "host", 9092)
    return assemble(ports, BrokerConfig({}), registration, applied.append)


def test_a_new_directory_has_its_id_on_disk_before_the_broker_registers() -> None:
    machine = SimulatedMachine(1)
    service = StoreService(machine.schedule, 1)
    broker = in_cluster(machine, service, [])
    assert machine.disk.list("") == [], "nothing is written before the start"
    broker.start()
    machine.disk.power_loss(machine.random)
    again = in_cluster(machine, service, []).components.directory
    assert again.directory_id == broker.components.directory.directory_id
    again.identify("cluster", 2)  # it was not used yet, so another node id may be chosen


def test_a_broker_with_a_failed_directory_lets_others_lead() -> None:
    machine = SimulatedMachine(1)
    service = StoreService(machine.schedule, 1)
    other = MemberHarness(machine.schedule, service.connect(), 2, directory="other").start()
    applied: list[Exception | None] = []
    broker = in_cluster(machine, service, applied)
    broker.start()
    assert machine.schedule.run(lambda: len(other.image.brokers) == 2 and bool(applied))
    registered = other.image.brokers[NodeId(1)]
    assert registered.directory_id == broker.components.directory.directory_id
    assert not registered.is_shutting_down
    broker.components.directory.fail(DiskError("t-0", "fsync failed"))
    assert machine.schedule.run(lambda: other.image.brokers[NodeId(1)].is_shutting_down)
