"""The embedded store and its journal: recovery after crashes, and damage."""

import logging

import pytest

from sawlog.cluster.embedded_store import EmbeddedStore
from sawlog.cluster.store_journal import (
    JOURNAL_PREFIX,
    SNAPSHOT,
    SNAPSHOT_BYTES,
    StoreDamaged,
    is_store_file,
)
from sawlog.core.store import (
    ConnectionLost,
    Create,
    Delete,
    Node,
    Operation,
    Result,
    SessionLost,
    SessionState,
    SetData,
    StoreError,
    StoreUnavailable,
)
from sawlog.simulation.schedule import Schedule, SeededRandom
from sawlog.simulation.simulated_disk import SimulatedDisk, Stopped

FIRST_JOURNAL = f"{JOURNAL_PREFIX}{0:020d}"
SMALL = 600  # bytes of journal that trigger a snapshot


class StoreOnDisk:
    """A disk that outlives the stores on it."""

    def __init__(self, seed: int = 1, *, snapshot_bytes: int = SNAPSHOT_BYTES) -> None:
        self.schedule = Schedule(seed)
        self.disk = SimulatedDisk(self.schedule.soon)
        self.snapshot_bytes = snapshot_bytes
        self.store: EmbeddedStore

    def open(self) -> EmbeddedStore:
        self.store = EmbeddedStore(self.disk, self.schedule, snapshot_bytes=self.snapshot_bytes)
        return self.store

    def write(self, *operations: Operation) -> list[Result] | StoreError:
        results: list[list[Result] | StoreError] = []
        self.store.multi(operations, results.append)
        assert self.schedule.run(lambda: bool(results))
        return results[0]

    def data(self, path: str) -> bytes | None:
        """Return a node's data, or None if it does not exist."""
        results: list[Node | StoreError] = []
        self.store.get(path, results.append)
        assert self.schedule.run(lambda: bool(results))
        return results[0].data if isinstance(results[0], Node) else None

    def kill(self) -> None:
        self.schedule.clear()
        self.disk.kill()

    def lose_power(self, seed: int) -> None:
        self.schedule.clear()
        self.disk.power_loss(SeededRandom(seed))

    def journal_size(self, name: str = FIRST_JOURNAL) -> int:
        return len(self.disk.read_file(name))


@pytest.fixture
def world() -> StoreOnDisk:
    world = StoreOnDisk()
    world.open()
    world.schedule.run_for(100)  # so that the disk reserve is written
    return world


def test_acknowledged_writes_survive_a_kill(world: StoreOnDisk) -> None:
    world.write(Create("/a", b"0"), Create("/a/b"))
    world.write(SetData("/a", b"1"))
    world.write(Delete("/a/b"))
    world.kill()
    world.open()
    assert world.data("/a") == b"1"
    assert world.data("/a/b") is None


def test_ephemeral_nodes_do_not_survive_a_kill(world: StoreOnDisk) -> None:
    world.write(Create("/e", ephemeral=True), Create("/a"))
    session = world.store.session_id
    world.kill()
    world.open()
    assert world.data("/e") is None
    assert world.data("/a") == b""
    assert world.store.session_id > session


def test_results_wait_for_the_fsync(world: StoreOnDisk) -> None:
    results: list[object] = []
    world.store.multi([Create("/a")], results.append)
    world.store.get("/a", results.append)
    while not results:
        world.schedule.step()
    world.lose_power(seed=3)
    world.open()
    assert world.data("/a") == b""


def test_one_fsync_covers_many_writes(world: StoreOnDisk) -> None:
    before = world.disk.operations
    results: list[object] = []
    for number in range(100):
        world.store.multi([Create(f"/n{number}")], results.append)
    world.schedule.run(lambda: len(results) == 100)
    syncs = world.disk.operations - before - 100  # an append each, and some marks
    assert syncs <= 6


def test_a_torn_tail_is_truncated_and_logged(
    world: StoreOnDisk, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(Create("/a"))
    size = world.journal_size()
    world.write(Create("/b"))
    world.kill()
    world.disk.cut(FIRST_JOURNAL, size + 20)
    with caplog.at_level(logging.WARNING):
        world.open()
    assert "torn tail" in caplog.text
    assert (world.data("/a"), world.data("/b")) == (b"", None)
    assert world.write(Create("/b")) == ["/b"]
    world.kill()
    world.open()
    assert world.data("/b") == b""


def test_damage_to_durable_changes_is_detected(world: StoreOnDisk) -> None:
    """At every byte of every acknowledged change; only the last mark may be lost."""
    world.write(Create("/a", b"first"))
    world.write(Create("/b", b"second"))
    end_of_changes = world.journal_size()
    world.write(Create("/c", b"third"))
    world.kill()
    intact = world.disk.read_file(FIRST_JOURNAL)
    for position in range(end_of_changes):
        world.disk.overwrite(FIRST_JOURNAL, position, bytes([intact[position] ^ 0x40]))
        with pytest.raises(StoreDamaged) as raised:
            world.open()
        assert raised.value.path == FIRST_JOURNAL
        assert str(position) in str(raised.value) or raised.value.position <= position
        world.disk.overwrite(FIRST_JOURNAL, position, intact[position : position + 1])
    world.open()
    assert world.data("/c") == b"third"


def test_damage_to_the_last_change_is_detected_by_its_mark(world: StoreOnDisk) -> None:
    world.write(Create("/a", b"precious"))
    world.kill()
    journal = world.disk.read_file(FIRST_JOURNAL)
    world.disk.overwrite(FIRST_JOURNAL, journal.index(b"precious"), b"worthless")
    with pytest.raises(StoreDamaged, match="durable"):
        world.open()


def test_a_gap_in_the_journal_is_detected(world: StoreOnDisk) -> None:
    world.write(Create("/a"))
    first = world.journal_size()
    world.write(Create("/b"))
    second = world.journal_size()
    world.write(Create("/c"))
    world.kill()
    data = world.disk.read_file(FIRST_JOURNAL)
    world.disk.cut(FIRST_JOURNAL, first)
    world.disk.open(FIRST_JOURNAL).append([data[second:]])
    with pytest.raises(StoreDamaged, match="follows"):
        world.open()


def test_a_long_journal_is_replaced_by_a_snapshot() -> None:
    world = StoreOnDisk(snapshot_bytes=SMALL)
    world.open()
    for number in range(40):
        world.write(Create(f"/n{number}", b"x" * 50))
    world.schedule.run_for(100)
    names = world.disk.list("")
    assert SNAPSHOT in names
    assert FIRST_JOURNAL not in names
    files = [name for name in names if is_store_file(name)]
    assert sum(len(world.disk.read_file(name)) for name in files) < 40 * 250
    world.write(SetData("/n0", b"after"))
    world.kill()
    world.open()
    assert world.data("/n0") == b"after"
    assert world.data("/n39") == b"x" * 50


def test_a_damaged_snapshot_is_detected() -> None:
    world = StoreOnDisk(snapshot_bytes=SMALL)
    world.open()
    for number in range(40):
        world.write(Create(f"/n{number}", b"x" * 50))
    world.schedule.run_for(100)
    world.kill()
    world.disk.overwrite(SNAPSHOT, 100, b"?")
    with pytest.raises(StoreDamaged) as raised:
        world.open()
    assert raised.value.path == SNAPSHOT


def test_a_missing_journal_is_detected() -> None:
    world = StoreOnDisk(snapshot_bytes=SMALL)
    world.open()
    for number in range(40):
        world.write(Create(f"/n{number}", b"x" * 50))
    world.schedule.run_for(100)
    world.kill()
    for name in world.disk.list(""):
        if name.startswith(JOURNAL_PREFIX):
            world.disk.remove(name)
    with pytest.raises(StoreDamaged, match="missing"):
        world.open()


@pytest.mark.parametrize(
    "topic", [SNAPSHOT, f"{SNAPSHOT}.foo", f"{SNAPSHOT}.1.tmp", FIRST_JOURNAL, "store.reserve"]
)
def test_topic_directories_are_not_confused_with_store_files(
    world: StoreOnDisk, topic: str
) -> None:
    for name in (f"{topic}-0", f"{topic}-0.0123456789abcdef-delete"):
        world.disk.make_directory(name)
        world.disk.open(f"{name}/log", create=True)
        assert not is_store_file(name)
    world.write(Create("/a"))
    world.kill()
    world.open()
    assert world.data("/a") == b""
    assert world.disk.exists(f"{topic}-0/log")


def test_an_unfinished_snapshot_is_removed_at_the_next_start(world: StoreOnDisk) -> None:
    world.disk.open(f"{SNAPSHOT}.17.tmp", create=True)
    world.kill()
    world.open()
    assert not world.disk.exists(f"{SNAPSHOT}.17.tmp")
    assert is_store_file(FIRST_JOURNAL)
    assert is_store_file(SNAPSHOT)


def test_writes_fail_on_a_full_disk_and_work_again_after_it(world: StoreOnDisk) -> None:
    world.write(Create("/a", b"0"))
    world.disk.free_bytes = 10
    assert isinstance(world.write(SetData("/a", b"1")), StoreUnavailable)
    assert world.data("/a") == b"0"
    world.disk.free_bytes = None
    assert not isinstance(world.write(SetData("/a", b"2")), StoreError)
    world.kill()
    world.open()
    assert world.data("/a") == b"2"


def test_a_failed_fsync_ends_the_session(world: StoreOnDisk) -> None:
    states: list[SessionState] = []
    world.store.on_state(states.append)
    world.write(Create("/a"))
    world.disk.fails_syncs = True
    assert isinstance(world.write(Create("/b")), ConnectionLost)
    world.disk.fails_syncs = False
    assert states == [SessionState.LOST]
    assert isinstance(world.write(Create("/c")), SessionLost | ConnectionLost)
    assert world.data("/a") is None


def test_a_callback_that_raises_does_not_affect_the_others(world: StoreOnDisk) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a bug in a callback")

    results: list[object] = []
    world.store.exists("/", fail)
    world.store.exists("/", results.append)
    with pytest.raises(RuntimeError):
        world.schedule.run(lambda: bool(results))
    assert world.schedule.run(lambda: bool(results))


# Power loss


def run_workload(world: StoreOnDisk, acknowledged: dict[int, None]) -> None:
    """Run multis that each create a node and a child and set a count."""
    world.open()
    world.write(Create("/count", b"-1"))
    acknowledged[-1] = None

    def write(number: int) -> None:
        def done(result: list[Result] | StoreError) -> None:
            assert not isinstance(result, StoreError)
            acknowledged[number] = None

        operations = [
            Create(f"/n{number}", b"x" * 40),
            Create(f"/n{number}/child"),
            SetData("/count", str(number).encode()),
        ]
        world.store.multi(operations, done)

    for number in range(14):
        write(number)
        for _ in range(number % 4):
            world.schedule.step()
    world.schedule.run(lambda: len(acknowledged) == 15)
    world.schedule.run_for(100)


def check_after_power_loss(world: StoreOnDisk, acknowledged: dict[int, None]) -> None:
    world.open()
    count = world.data("/count")
    last = -2 if count is None else int(count)
    assert last >= max(acknowledged, default=-2), "an acknowledged write is lost"
    for number in range(14):
        is_there = number <= last
        assert (world.data(f"/n{number}") == b"x" * 40) is is_there
        assert (world.data(f"/n{number}/child") == b"") is is_there
    assert world.write(Create("/after")) == ["/after"]


def lose_power_at(step: int, seed: int, *, forgets_syncs: bool = False) -> bool:
    """Run the workload up to a disk operation; False if it finished before."""
    world = StoreOnDisk(seed, snapshot_bytes=SMALL)
    world.disk.forgets_syncs = forgets_syncs
    world.disk.stop_at = step
    acknowledged: dict[int, None] = {}
    stopped = False
    try:
        run_workload(world, acknowledged)
    except Stopped:
        stopped = True
    world.lose_power(seed * 1000 + step)
    world.disk.stop_at = None
    check_after_power_loss(world, acknowledged)
    return stopped


@pytest.mark.parametrize("seed", range(1, 7))
def test_acknowledged_multis_survive_a_power_loss_at_any_step(seed: int) -> None:
    step = 1
    while lose_power_at(step, seed):
        step += 1
    assert step > 30, "the workload has enough steps"


def test_the_power_loss_test_detects_a_disk_that_ignores_fsync() -> None:
    def everything_holds() -> bool:
        try:
            for step in range(1, 60):
                lose_power_at(step, seed=2, forgets_syncs=True)
        except (AssertionError, StoreDamaged):
            return False
        return True

    assert not everything_holds()
