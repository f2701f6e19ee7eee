"""S3 servers for tests: moto, in memory, and versitygw, which keeps objects as files."""

import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import boto3

from sawlog.pipeline.delta.table_path import StorageOptions, TablePath
from support.process import ServerProcess
from support.programs import unavailable
from tools import versitygw
from tools.kafka_node import free_port

ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key-of-the-lake"
BUCKET = "lake"
TESTS = Path(__file__).resolve().parents[2]


class S3Server:
    """A running server with one bucket; each test uses prefixes of its own."""

    def __init__(self, process: ServerProcess, port: int) -> None:
        self.process = process
        self.port = port
        self.options = store_options(port)
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()

    def new_path(self, name: str = "t") -> TablePath:
        """The path of a new table, below a prefix of its own."""
        return TablePath(f"s3://{BUCKET}/{uuid4().hex}/{name}", StorageOptions(self.options))

    def stop(self) -> None:
        self.process.kill()


def store_options(port: int, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The `lake_options` of a server on this port, which may be a proxy."""
    return {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        **(more or {}),
    }


def start_moto() -> S3Server:
    process = ServerProcess([sys.executable, "-m", "support.pipeline.moto_server"], cwd=TESTS)
    return S3Server(process, int(process.wait_for_line(r"^port (\d+)$")[1]))


def start_versitygw(directory: Path) -> S3Server:
    program = versitygw.program()
    if program is None:
        unavailable("versitygw is not built: run `make versitygw`, which needs Go")
    objects, metadata = directory / "objects", directory / "metadata"
    for needed in (objects, metadata):
        needed.mkdir(parents=True)
    port = free_port()
    process = ServerProcess(
        [
            str(program), "--port", f"127.0.0.1:{port}", "--access", ACCESS_KEY,
            "--secret", SECRET_KEY, "--keep-alive", "--quiet",
            "posix", "--sidecar", str(metadata), str(objects),
        ]
    )  # fmt: skip
    process.wait_for_line("single account mode")
    return S3Server(process, port)
