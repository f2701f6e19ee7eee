"""Which files and directories a flush of one log has to sync."""

import pytest

from sawlog.simulation.simulated_disk import SimulatedFile
from sawlog.storage.unsynced_files import UnsyncedFiles
from support.storage.segments import DIRECTORY, PartitionDirectory


class Files:
    """Files by name; the last segment of the log is "active"."""

    def __init__(self) -> None:
        self._disk = PartitionDirectory().disk

    def __getitem__(self, name: str) -> SimulatedFile:
        return self._disk.open(f"{DIRECTORY}/{name}", create=True)


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def unsynced() -> UnsyncedFiles:
    return UnsyncedFiles(DIRECTORY)


def test_a_flush_takes_completed_segments_and_the_active_one(
    files: Files, unsynced: UnsyncedFiles
) -> None:
    unsynced.add([files["a"], files["b"]])
    assert unsynced.begin(files["active"]) == ([files["a"], files["b"], files["active"]], [])


def test_a_file_is_taken_by_one_flush_only(files: Files, unsynced: UnsyncedFiles) -> None:
    unsynced.add([files["a"]])
    unsynced.begin(files["active"])
    unsynced.add([files["b"]])
    unsynced.end()
    assert unsynced.begin(None) == ([files["b"]], [])


def test_a_new_file_has_its_directory_synced_once(unsynced: UnsyncedFiles) -> None:
    unsynced.note_new_entry()
    assert unsynced.begin(None) == ([], [DIRECTORY])
    unsynced.end()
    assert unsynced.begin(None) == ([], [])


def test_a_new_log_has_the_data_directory_synced_too(unsynced: UnsyncedFiles) -> None:
    unsynced.note_new_entry()
    unsynced.note_new_directory()
    assert unsynced.begin(None) == ([], [DIRECTORY, ""])


def test_the_files_of_a_flush_that_was_not_attempted_go_with_the_next(
    files: Files, unsynced: UnsyncedFiles
) -> None:
    unsynced.add([files["a"]])
    unsynced.begin(files["active"])
    unsynced.add([files["b"]])
    unsynced.retry(files["active"])
    assert unsynced.begin(files["active"]) == (
        [files["a"], files["b"], files["active"]],
        [DIRECTORY, ""],
    )


def test_an_active_segment_that_was_rolled_during_a_flush_is_synced_by_the_retry(
    files: Files, unsynced: UnsyncedFiles
) -> None:
    unsynced.begin(files["old"])
    unsynced.add([files["old"]])
    unsynced.retry(files["active"])
    synced, _ = unsynced.begin(files["active"])
    assert synced == [files["old"], files["active"]]


def test_removed_files_need_no_sync(files: Files, unsynced: UnsyncedFiles) -> None:
    unsynced.add([files["a"], files["b"]])
    unsynced.begin(None)
    unsynced.add([files["c"], files["d"]])
    unsynced.forget([files["a"], files["c"]])
    unsynced.retry(files["active"])
    assert unsynced.begin(None)[0] == [files["b"], files["d"]]


def test_a_blocking_flush_includes_the_files_of_a_flush_in_flight(
    files: Files, unsynced: UnsyncedFiles
) -> None:
    unsynced.add([files["a"]])
    unsynced.begin(files["active"])
    unsynced.add([files["b"]])
    unsynced.note_new_entry()
    synced, directories = unsynced.take_all(files["active"])
    assert set(synced) == {files["a"], files["b"], files["active"]}
    assert len(synced) == 3, "each file once"
    assert directories == [DIRECTORY]
