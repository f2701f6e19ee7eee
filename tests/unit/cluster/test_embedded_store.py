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
def harness() -> StoreOnDisk:
    harness = StoreOnDisk()
    harness.open()
    harness.schedule.run_for(100)  # so that the disk reserve is written
    return harness


def test_acknowledged_writes_survive_a_kill(harness: StoreOnDisk) -> None:
    harness.write(Create("/a", b"0"), Create("/a/b"))
    harness.write(SetData("/a", b"1"))
    harness.write(Delete("/a/b"))
    harness.kill()
    harness.open()
    assert harness.data("/a") == b"1"
    assert harness.data("/a/b") is None


def test_ephemeral_nodes_do_not_survive_a_kill(harness: StoreOnDisk) -> None:
    harness.write(Create("/e", ephemeral=True), Create("/a"))
    session = harness.store.session_id
    harness.kill()
    harness.open()
    assert harness.data("/e") is None
    assert harness.data("/a") == b""
    assert harness.store.session_id > session


def test_results_wait_for_the_fsync(harness: StoreOnDisk) -> None:
    results: list[object] = []
    harness.store.multi([Create("/a")], results.append)
    harness.store.get("/a", results.append)
    while not results:
        harness.schedule.step()
    harness.lose_power(seed=3)
    harness.open()
    assert harness.data("/a") == b""


def test_one_fsync_covers_many_writes(harness: StoreOnDisk) -> None:
    before = harness.disk.operations
    results: list[object] = []
    for number in range(100):
        harness.store.multi([Create(f"/n{number}")], results.append)
    harness.schedule.run(lambda: len(results) == 100)
    syncs = harness.disk.operations - before - 100  # an append each, and some marks
    assert syncs <= 6


def test_a_torn_tail_is_truncated_and_logged(
    harness: StoreOnDisk, caplog: pytest.LogCaptureFixture
) -> None:
    harness.write(Create("/a"))
    size = harness.journal_size()
    harness.write(Create("/b"))
    harness.kill()
    harness.disk.cut(FIRST_JOURNAL, size + 20)
    with caplog.at_level(logging.WARNING):
        harness.open()
    assert "torn tail" in caplog.text
    assert (harness.data("/a"), harness.data("/b")) == (b"", None)
    assert harness.write(Create("/b")) == ["/b"]
    harness.kill()
    harness.open()
    assert harness.data("/b") == b""


def test_damage_to_durable_changes_is_detected(harness: StoreOnDisk) -> None:
    """At every byte of every acknowledged change; only the last mark may be lost."""
    harness.write(Create("/a", b"first"))
    harness.write(Create("/b", b"second"))
    end_of_changes = harness.journal_size()
    harness.write(Create("/c", b"third"))
    harness.kill()
    intact = harness.disk.read_file(FIRST_JOURNAL)
    for position in range(end_of_changes):
        harness.disk.overwrite(FIRST_JOURNAL, position, bytes([intact[position] ^ 0x40]))
        with pytest.raises(StoreDamaged) as raised:
            harness.open()
        assert raised.value.path == FIRST_JOURNAL
        assert str(position) in str(raised.value) or raised.value.position <= position
        harness.disk.overwrite(FIRST_JOURNAL, position, intact[position : position + 1])
    harness.open()
    assert harness.data("/c") == b"third"


def test_damage_to_the_last_change_is_detected_by_its_mark(harness: StoreOnDisk) -> None:
    harness.write(Create("/a", b"precious"))
    harness.kill()
    journal = harness.disk.read_file(FIRST_JOURNAL)
    harness.disk.overwrite(FIRST_JOURNAL, journal.index(b"precious"), b"worthless")
    with pytest.raises(StoreDamaged, match="durable"):
        harness.open()


def test_a_gap_in_the_journal_is_detected(harness: StoreOnDisk) -> None:
    harness.write(Create("/a"))
    first = harness.journal_size()
    harness.write(Create("/b"))
    second = harness.journal_size()
    harness.write(Create("/c"))
    harness.kill()
    data = harness.disk.read_file(FIRST_JOURNAL)
    harness.disk.cut(FIRST_JOURNAL, first)
    harness.disk.open(FIRST_JOURNAL).append([data[second:]])
    with pytest.raises(StoreDamaged, match="follows"):
        harness.open()


def test_a_long_journal_is_replaced_by_a_snapshot() -> None:
    harness = StoreOnDisk(snapshot_bytes=SMALL)
    harness.open()
    for number in range(40):
        harness.write(Create(f"/n{number}", b"x" * 50))
    harness.schedule.run_for(100)
    names = harness.disk.list("")
    assert SNAPSHOT in names
    assert FIRST_JOURNAL not in names
    files = [name for name in names if is_store_file(name)]
    assert sum(len(harness.disk.read_file(name)) for name in files) < 40 * 250
    harness.write(SetData("/n0", b"after"))
    harness.kill()
    harness.open()
    assert harness.data("/n0") == b"after"
    assert harness.data("/n39") == b"x" * 50


def test_a_damaged_snapshot_is_detected() -> None:
    harness = StoreOnDisk(snapshot_bytes=SMALL)
    harness.open()
    for number in range(40):
        harness.write(Create(f"/n{number}", b"x" * 50))
    harness.schedule.run_for(100)
    harness.kill()
    harness.disk.overwrite(SNAPSHOT, 100, b"?")
    with pytest.raises(StoreDamaged) as raised:
        harness.open()
    assert raised.value.path == SNAPSHOT


def test_a_missing_journal_is_detected() -> None:
    harness = StoreOnDisk(snapshot_bytes=SMALL)
    harness.open()
    for number in range(40):
        harness.write(Create(f"/n{number}", b"x" * 50))
    harness.schedule.run_for(100)
    harness.kill()
    for name in harness.disk.list(""):
        if name.startswith(JOURNAL_PREFIX):
            harness.disk.remove(name)
    with pytest.raises(StoreDamaged, match="missing"):
        harness.open()


@pytest.mark.parametrize(
    "topic", [SNAPSHOT, f"{SNAPSHOT}.foo", f"{SNAPSHOT}.1.tmp", FIRST_JOURNAL, "store.reserve"]
)
def test_topic_directories_are_not_confused_with_store_files(
    harness: StoreOnDisk, topic: str
) -> None:
    for name in (f"{topic}-0", f"{topic}-0.0123456789abcdef-delete"):
        harness.disk.make_directory(name)
        harness.disk.open(f"{name}/log", create=True)
        assert not is_store_file(name)
    harness.write(Create("/a"))
    harness.kill()
    harness.open()
    assert harness.data("/a") == b""
    assert harness.disk.exists(f"{topic}-0/log")


def test_an_unfinished_snapshot_is_removed_at_the_next_start(harness: StoreOnDisk) -> None:
    harness.disk.open(f"{SNAPSHOT}.17.tmp", create=True)
    harness.kill()
    harness.open()
    assert not harness.disk.exists(f"{SNAPSHOT}.17.tmp")
    assert is_store_file(FIRST_JOURNAL)
    assert is_store_file(SNAPSHOT)


def test_writes_fail_on_a_full_disk_and_work_again_after_it(harness: StoreOnDisk) -> None:
    harness.write(Create("/a", b"0"))
    harness.disk.free_bytes = 10
    assert isinstance(harness.write(SetData("/a", b"1")), StoreUnavailable)
    assert harness.data("/a") == b"0"
    harness.disk.free_bytes = None
    assert not isinstance(harness.write(SetData("/a", b"2")), StoreError)
    harness.kill()
    harness.open()
    assert harness.data("/a") == b"2"


def test_a_failed_fsync_ends_the_session(harness: StoreOnDisk) -> None:
    states: list[SessionState] = []
    harness.store.on_state(states.append)
    harness.write(Create("/a"))
    harness.disk.fails_syncs = True
    assert isinstance(harness.write(Create("/b")), ConnectionLost)
    harness.disk.fails_syncs = False
    assert states == [SessionState.LOST]
    assert isinstance(harness.write(Create("/c")), SessionLost)
    assert harness.data("/a") is None


@pytest.mark.parametrize("seed", range(8))
def test_a_change_whose_fsync_failed_is_lost_by_no_later_power_loss(
    harness: StoreOnDisk, seed: int
) -> None:
    """The next process finds it in the page cache, and what it shows must stay."""
    harness.write(Create("/a"))
    harness.disk.fails_syncs = True
    assert isinstance(harness.write(Create("/b")), ConnectionLost)
    harness.disk.fails_syncs = False
    harness.kill()
    harness.open()
    assert harness.data("/b") == b""
    assert not isinstance(harness.write(Create("/c")), StoreError)
    harness.lose_power(seed)
    harness.open()
    assert (harness.data("/a"), harness.data("/b"), harness.data("/c")) == (b"", b"", b"")


def test_a_start_rewrites_no_change_that_is_known_to_be_durable(harness: StoreOnDisk) -> None:
    for number in range(20):
        harness.write(Create(f"/{number}", bytes(100)))
    size = harness.journal_size()
    harness.kill()
    harness.open()
    (path, position, length) = harness.disk.rewrites[-1]
    assert (path, position + length) == (FIRST_JOURNAL, size)
    assert length < 100, "only the mark at the end"


def test_a_callback_that_raises_does_not_affect_the_others(harness: StoreOnDisk) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a bug in a callback")

    results: list[object] = []
    harness.store.exists("/", fail)
    harness.store.exists("/", results.append)
    with pytest.raises(RuntimeError):
        harness.schedule.run(lambda: bool(results))
    assert harness.schedule.run(lambda: bool(results))


# Power loss


def run_workload(harness: StoreOnDisk, acknowledged: dict[int, None]) -> None:
    """Run multis that each create a node and a child and set a count."""
    harness.open()
    harness.write(Create("/count", b"-1"))
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
        harness.store.multi(operations, done)

    for number in range(14):
        write(number)
        for _ in range(number % 4):
            harness.schedule.step()
    harness.schedule.run(lambda: len(acknowledged) == 15)
    harness.schedule.run_for(100)


def check_after_power_loss(harness: StoreOnDisk, acknowledged: dict[int, None]) -> None:
    harness.open()
    count = harness.data("/count")
    last = -2 if count is None else int(count)
    assert last >= max(acknowledged, default=-2), "an acknowledged write is lost"
    for number in range(14):
        is_there = number <= last
        assert (harness.data(f"/n{number}") == b"x" * 40) is is_there
        assert (harness.data(f"/n{number}/child") == b"") is is_there
    assert harness.write(Create("/after")) == ["/after"]


def lose_power_at(step: int, seed: int, *, forgets_syncs: bool = False) -> bool:
    """Run the workload up to a disk operation; False if it finished before."""
    harness = StoreOnDisk(seed, snapshot_bytes=SMALL)
    harness.disk.forgets_syncs = forgets_syncs
    harness.disk.stop_at = step
    acknowledged: dict[int, None] = {}
    stopped = False
    try:
        run_workload(harness, acknowledged)
    except Stopped:
        stopped = True
    harness.lose_power(seed * 1000 + step)
    harness.disk.stop_at = None
    check_after_power_loss(harness, acknowledged)
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
