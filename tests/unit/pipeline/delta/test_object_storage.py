"""Commits to an object store whose requests and responses get lost, fail or race."""

import pickle
import socket
import threading
from collections.abc import Iterator

import obstore
import pytest
from obstore.store import S3Store

from sawlog.pipeline.delta.errors import StoreUnavailable, UnsupportedStorage
from sawlog.pipeline.delta.object_storage import ObjectStorage, store_errors
from sawlog.pipeline.delta.parquet_writer import FileWriter
from sawlog.pipeline.delta.store_probe import probe
from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from sawlog.pipeline.landing.failures import FailureKind, classify, parse_failure
from support.pipeline.fault_proxy import (
    CONFLICT,
    ERROR_AFTER_SUCCESS,
    LOST_REQUEST,
    LOST_RESPONSE,
    UNAVAILABLE,
    Fault,
    FaultProxy,
    first,
    proxied,
)
from support.pipeline.s3_servers import ACCESS_KEY, SECRET_KEY, S3Server, store_options
from support.pipeline.tables import rows

ENTRY = "_delta_log/00000000000000000001.json"


@pytest.fixture
def proxy(moto: S3Server) -> Iterator[FaultProxy]:
    with proxied(moto.port) as found:
        yield found


def behind(proxy: FaultProxy, moto: S3Server, **more: str) -> ObjectStorage:
    path = moto.new_path()
    return ObjectStorage(TablePath(path, StorageOptions(store_options(proxy.port, more))))


@pytest.mark.parametrize(
    "fault", [LOST_RESPONSE, LOST_REQUEST, ERROR_AFTER_SUCCESS, CONFLICT, UNAVAILABLE]
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_put_that_had_to_be_repeated_counts_once_as_ours(
    moto: S3Server, proxy: FaultProxy, fault: Fault, count: int
) -> None:
    storage = behind(proxy, moto)
    proxy.script = first(count, fault)
    assert storage.put_if_absent(ENTRY, b"mine")
    assert storage.read(ENTRY) == b"mine"
    assert not storage.put_if_absent(ENTRY, b"another commit")
    assert not proxy.script("PUT", ENTRY), "the fault was met"


@pytest.mark.parametrize("fault", [LOST_RESPONSE, LOST_REQUEST, CONFLICT])
def test_a_put_that_had_to_be_repeated_loses_against_another_writer(
    moto: S3Server, proxy: FaultProxy, fault: Fault
) -> None:
    storage = behind(proxy, moto)
    direct = ObjectStorage(TablePath(storage.root, StorageOptions(moto.options)))
    assert direct.put_if_absent(ENTRY, b"theirs")
    proxy.script = first(1, fault)
    assert not storage.put_if_absent(ENTRY, b"mine")
    assert storage.read(ENTRY) == b"theirs"


def test_a_409_is_repeated_until_the_outcome_is_known(moto: S3Server, proxy: FaultProxy) -> None:
    """The other request of the race may fail, so a 409 does not mean that the name exists."""
    storage = behind(proxy, moto)
    proxy.script = first(2, CONFLICT)
    assert storage.put_if_absent(ENTRY, b"mine")
    puts = [path for method, path in proxy.seen if method == "PUT"]
    assert len(puts) == 3


def test_a_slow_put_that_is_repeated_counts_once(moto: S3Server, proxy: FaultProxy) -> None:
    """The first request reaches the store after its own repetition."""
    storage = behind(proxy, moto, timeout="500ms")
    late = threading.Event()
    held = Fault(passes=True, until=late)
    done: list[str] = []

    def hold_the_first(method: str, path: str) -> Fault | None:
        if method != "PUT":
            return None
        done.append(path)
        return held if len(done) == 1 else None

    proxy.script = hold_the_first
    assert storage.put_if_absent(ENTRY, b"mine")
    late.set()
    assert storage.read(ENTRY) == b"mine"
    assert len(done) >= 2


def test_a_store_that_does_not_answer_is_unavailable(moto: S3Server, proxy: FaultProxy) -> None:
    storage = behind(proxy, moto)
    proxy.script = lambda _method, _path: UNAVAILABLE
    with pytest.raises(StoreUnavailable, match="SlowDown: by the proxy") as caught:
        storage.read(ENTRY)
    assert caught.value.filename == storage.full(ENTRY)


def test_a_store_that_ignores_conditions_is_refused(moto: S3Server, proxy: FaultProxy) -> None:
    storage = behind(proxy, moto)
    proxy.drops_conditions = True
    with pytest.raises(UnsupportedStorage, match="16 were told that they were first"):
        probe(storage)
    assert list(storage.walk()) == []
    proxy.drops_conditions = False
    probe(storage)


def test_a_missing_bucket_is_named(moto: S3Server) -> None:
    storage = ObjectStorage(TablePath("s3://nowhere/t", StorageOptions(moto.options)))
    for use in (lambda: storage.put_if_absent(ENTRY, b""), lambda: storage.names("_delta_log"),
                lambda: list(storage.walk())):  # fmt: skip
        with pytest.raises(StoreUnavailable, match=r"no bucket 'nowhere'|NoSuchBucket: "):
            use()


def test_a_writer_that_fails_leaves_no_object(moto: S3Server) -> None:
    storage = ObjectStorage(moto.new_path())

    def fail() -> None:
        with FileWriter(storage, target_bytes=1, row_group_bytes=1_000) as writer:
            writer.write(rows(0, range(100)))
            assert len(list(storage.walk())) == 1  # one is complete
            writer.write(rows(0, range(5)))
            raise RuntimeError("task failed")

    with pytest.raises(RuntimeError, match="task failed"):
        fail()
    assert list(storage.walk()) == []


def test_a_store_that_does_not_answer_is_waited_for(moto: S3Server, proxy: FaultProxy) -> None:
    storage = behind(proxy, moto)
    proxy.script = lambda _method, _path: UNAVAILABLE
    with pytest.raises(StoreUnavailable) as caught:
        storage.read(ENTRY)
    failure = classify(caught.value)
    assert failure.kind is FailureKind.STORE_UNREACHABLE
    assert failure.message == f"{storage.full(ENTRY)}: SlowDown: by the proxy"
    assert parse_failure(f"PythonException: {failure}").kind is FailureKind.STORE_UNREACHABLE


@pytest.mark.parametrize("is_listening", [False, True])
def test_an_endpoint_that_cannot_be_reached_is_named(is_listening: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not is_listening:
            server.close()
        store = S3Store(
            "bucket",
            config={"endpoint": f"http://127.0.0.1:{port}", "region": "r",
                    "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY},
            client_options={"allow_http": True, "timeout": "100ms"},
            retry_config={"max_retries": 0},
        )  # fmt: skip
        with pytest.raises(StoreUnavailable) as caught, store_errors("s3://bucket/t"):
            obstore.get(store, "t")
    why = "it timed out" if is_listening else "Connection refused"
    assert caught.value.strerror == f"127.0.0.1:{port} does not answer: {why}"


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:word@bucket/t",
        "s3://key:word/more@bucket/t",
        "s3://bucket/t?sig=word",
        "s3://bucket/t#word",
    ],
)
def test_a_url_with_credentials_is_refused_without_showing_them(url: str) -> None:
    with pytest.raises(UnsupportedStorage, match="has a bucket and a prefix only") as caught:
        ObjectStorage(TablePath(url))
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://", "s3:///t", "s3://b/../t"])
def test_a_url_without_a_bucket_or_with_dots_is_refused(url: str) -> None:
    with pytest.raises(UnsupportedStorage):
        ObjectStorage(TablePath(url))


def test_slashes_at_the_end_of_a_url_do_not_matter(moto: S3Server) -> None:
    path = moto.new_path()
    assert ObjectStorage(TablePath(f"{path}//", path.options)).root == path


def test_options_are_in_a_pickle_and_nowhere_else(moto: S3Server) -> None:
    storage = ObjectStorage(moto.new_path())
    copy = pickle.loads(pickle.dumps(storage))
    assert copy.root.options == storage.root.options
    dead = storage.root + "__dead"
    assert dead.options["secret_access_key"] == SECRET_KEY
    assert dead.sibling("u").options == dead.child("v").options == dead.options
    for shown in (storage, storage.root, dead, dead.options):
        assert SECRET_KEY not in f"{shown} {shown!r}"
        assert ACCESS_KEY not in f"{shown} {shown!r}"


def test_an_unknown_option_is_named_without_its_value() -> None:
    path = TablePath("s3://b/t", StorageOptions({"secret_acces_key": "word", "region": "x"}))
    with pytest.raises(UnsupportedStorage, match="'secret_acces_key' is not valid") as caught:
        ObjectStorage(path).read("x")
    assert "word" not in str(caught.value)


def test_errors_show_no_credentials(moto: S3Server, proxy: FaultProxy) -> None:
    storage = behind(proxy, moto)
    proxy.script = lambda _method, _path: Fault(passes=False, status=403, code="AccessDenied")
    with pytest.raises(PermissionError, match="AccessDenied: by the proxy") as caught:
        storage.put_if_absent(ENTRY, b"")
    assert ACCESS_KEY not in repr(caught.value)
    assert caught.value.__suppress_context__
