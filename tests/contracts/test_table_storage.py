"""The contract of TableStorage, for a directory and for servers of S3, Google and Azure."""

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sawlog.pipeline.delta.store_probe import WRITERS, probe
from sawlog.pipeline.delta.table_storage import TableStorage, open_storage

ODD_NAME = "country=a%2Fb c%25=ü+&/day=__HIVE_DEFAULT_PARTITION__/sawlog-1.parquet"
LARGE = os.urandom(1024 * 1024)


STORES = ("directory", "moto", "google", "azure")


@pytest.fixture(params=[*STORES, pytest.param("versitygw", marks=pytest.mark.long)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableStorage]:
    if request.param == "directory":
        yield open_storage(tmp_path / "t")
    else:
        yield open_storage(request.getfixturevalue(request.param).new_path())


def paths(storage: TableStorage) -> list[str]:
    return sorted(file.path for file in storage.walk())


def write(storage: TableStorage, path: str, *parts: bytes) -> None:
    output = storage.open_output(path)
    for part in parts:
        output.sink.write(part)
    output.close()


def test_of_many_writers_that_create_a_name_one_succeeds(storage: TableStorage) -> None:
    for number in range(10):
        contents = [b"%d of %d" % (writer, number) for writer in range(WRITERS)]
        path = f"_delta_log/{number}.json"
        with ThreadPoolExecutor(WRITERS) as pool:
            won = list(pool.map(lambda data, at=path: storage.put_if_absent(at, data), contents))
        assert sum(won) == 1
        assert storage.read(path) == contents[won.index(True)]
    assert len(storage.names("_delta_log")) == 10


def test_the_probe_accepts_it_and_leaves_nothing(storage: TableStorage) -> None:
    probe(storage)
    assert paths(storage) == []


def test_a_name_that_exists_is_not_created_again(storage: TableStorage) -> None:
    assert storage.put_if_absent("log/1", b"first")
    assert not storage.put_if_absent("log/1", b"second")
    assert storage.read("log/1") == b"first"


def test_a_file_that_is_put_again_is_replaced(storage: TableStorage) -> None:
    storage.put("_sawlog/a.json", b"first")
    storage.put("_sawlog/a.json", b"the second")
    assert storage.read("_sawlog/a.json") == b"the second"
    assert paths(storage) == ["_sawlog/a.json"]


def test_what_is_missing_is_not_found(storage: TableStorage) -> None:
    assert storage.stat("log/1") is None
    assert storage.names("log") == []
    assert paths(storage) == []
    storage.delete("log/1")
    with pytest.raises(FileNotFoundError):
        storage.read("log/1")
    with pytest.raises(FileNotFoundError):
        storage.open_input("log/1")


def test_a_written_file_is_listed_read_and_deleted(storage: TableStorage) -> None:
    write(storage, ODD_NAME, b"some ", b"bytes")
    storage.sync([ODD_NAME])
    assert paths(storage) == [ODD_NAME]
    found = storage.stat(ODD_NAME)
    assert found is not None
    assert (found.path, found.size) == (ODD_NAME, 10)
    assert found.modified_ms > 1_600_000_000_000
    assert storage.read(ODD_NAME) == b"some bytes"
    assert storage.names("") == ["country=a%2Fb c%25=ü+&"]
    storage.delete(ODD_NAME)
    assert paths(storage) == []


def test_names_of_a_directory_leave_out_longer_names(storage: TableStorage) -> None:
    write(storage, "log/1", b"1")
    write(storage, "log/in/2", b"2")
    write(storage, "log2/3", b"3")
    assert sorted(storage.names("log")) == ["1", "in"]
    assert paths(storage) == ["log/1", "log/in/2", "log2/3"]


def test_a_table_does_not_list_files_of_a_table_with_a_longer_name(storage: TableStorage) -> None:
    other = open_storage(storage.root + "__dead")
    write(other, "1", b"dead")
    assert paths(storage) == []
    assert storage.names("") == []


def test_a_large_file_is_read_back_from_anywhere(storage: TableStorage) -> None:
    output = storage.open_output("data/1.parquet")
    for _ in range(12):
        output.sink.write(LARGE)
    assert output.tell() == 12 * len(LARGE)
    output.close()
    with storage.open_input("data/1.parquet") as source:
        assert source.size() == 12 * len(LARGE)
        source.seek(7 * len(LARGE) - 3)
        assert source.read(10) == LARGE[-3:] + LARGE[:7]
        source.seek(-4, os.SEEK_END)
        assert source.read() == LARGE[-4:]


@pytest.mark.parametrize("megabytes", [1, 12])
def test_an_aborted_file_never_appears(storage: TableStorage, megabytes: int) -> None:
    output = storage.open_output("data/1.parquet")
    for _ in range(megabytes):
        output.sink.write(LARGE)
    output.abort()
    assert paths(storage) == []
    assert storage.stat("data/1.parquet") is None


def test_a_pickled_storage_opens_the_same_files(storage: TableStorage) -> None:
    write(storage, "1", b"1")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy.read("1") == b"1"
    assert copy.root == storage.root
    assert storage.full("1") == f"{storage.root}/1"
