"""A local cluster for `sawlog up`: ZooKeeper and N brokers under one supervisor.

Its directory has `broker-1` to `broker-N`, `zookeeper` unless another ensemble is named, and the
lock file of the supervisor.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvloop

from sawlog.server.address import Address
from sawlog.server.coordination import NO_ZOOKEEPER
from sawlog.server.supervisor import (
    SUPERVISOR,
    CannotStart,
    JointOutput,
    ProcessPlan,
    Supervisor,
)
from sawlog.server.zookeeper_address import ZooKeeperAddress
from sawlog.server.zookeeper_process import ZooKeeperServer, is_serving

HOST = "127.0.0.1"
LOCK_FILE = "up.lock"
STOPPED = 0
CANNOT_START = 1

_DEFAULT_SETTINGS = {"zookeeper.session.timeout.ms": "6000"}  # as the brokers of KRaft have
MAX_REPLICATION_FACTOR = 3
"""New topics get as many replicas as there are brokers, up to this."""
_PORT_PATIENCE_S = 2.0
"""How long a port may be in use: the processes of a killed supervisor end a moment after it."""
_PROBE_S = 1.0


class ClusterUnavailable(Exception):
    """The cluster cannot be started; the text says what to change."""


@dataclass(frozen=True, slots=True)
class LocalClusterOptions:
    """`zookeeper` is None for a ZooKeeper of this cluster's own, on `zookeeper_port`."""

    data: Path
    brokers: int
    port: int
    zookeeper: ZooKeeperAddress | None
    zookeeper_port: int
    settings: Mapping[str, str]

    @property
    def addresses(self) -> list[Address]:
        return [Address(HOST, self.port + index) for index in range(self.brokers)]

    @property
    def ensemble(self) -> ZooKeeperAddress:
        return self.zookeeper or ZooKeeperAddress((Address(HOST, self.zookeeper_port),))


def run(options: LocalClusterOptions) -> int:
    """Run the cluster until a stop signal; return the exit code of the process.

    ClusterUnavailable, ZooKeeperUnavailable or OSError before any process is started.
    """
    with _locked(options.data):
        groups = _plans(options)
        names = [plan.name for group in groups for plan in group]
        is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        output = JointOutput(sys.stdout, names, is_coloured=is_coloured)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(options, groups, output))


async def _run(
    options: LocalClusterOptions, groups: list[list[ProcessPlan]], output: JointOutput
) -> int:
    def ready() -> None:
        servers = ",".join(map(str, options.addresses))
        output.write(
            SUPERVISOR,
            f"cluster ready: bootstrap servers {servers}; ZooKeeper {options.ensemble};"
            f" data in {options.data.absolute()}; Ctrl-C stops it",
        )

    supervisor = Supervisor(groups, output, ready)
    is_stopping = False

    def stop_signalled(number: int) -> None:
        nonlocal is_stopping
        name = signal.Signals(number).name
        if is_stopping:
            output.write(SUPERVISOR, f"second stop signal {name}: killing all processes")
            supervisor.kill()
            os._exit(128 + number)
        is_stopping = True
        output.write(SUPERVISOR, f"stopping the cluster after {name}; again to kill it")
        supervisor.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop_signalled, number)
    try:
        await supervisor.run()
    except CannotStart as error:
        output.write(SUPERVISOR, f"cannot start: {error}; its output above says why")
        return NO_ZOOKEEPER if error.code == NO_ZOOKEEPER else CANNOT_START
    output.write(SUPERVISOR, "stopped")
    return STOPPED


def existing_brokers(data: Path) -> int:
    """Return how many brokers the directory has; 0 for a new one."""
    numbers = [path.name.removeprefix("broker-") for path in data.glob("broker-*")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _plans(options: LocalClusterOptions) -> list[list[ProcessPlan]]:
    """Return the processes in the order of their start; all ports are free when this returns."""
    for address in options.addresses:
        _check_port(address, "--port")
    brokers = [
        _broker_plan(options, index + 1, address) for index, address in enumerate(options.addresses)
    ]
    if options.zookeeper is not None:
        return [brokers]
    address = Address(HOST, options.zookeeper_port)
    _check_port(address, "--zookeeper-port")
    server = ZooKeeperServer(options.data / "zookeeper", address)
    command = server.command()
    server.write_config()

    async def is_ready() -> bool:
        return await asyncio.to_thread(is_serving, address, _PROBE_S)

    return [[ProcessPlan("zookeeper", command, is_ready=is_ready)], brokers]


def _broker_plan(options: LocalClusterOptions, node_id: int, address: Address) -> ProcessPlan:
    name = f"broker-{node_id}"
    command = [sys.executable, "-m", "sawlog", "broker"]
    command += ["--data", os.fspath(options.data.absolute() / name), "--node-id", str(node_id)]
    command += ["--listen", str(address), "--zookeeper", str(options.ensemble)]
    factor = {"default.replication.factor": str(min(MAX_REPLICATION_FACTOR, options.brokers))}
    for key, value in {**_DEFAULT_SETTINGS, **factor, **options.settings}.items():
        command += ["--set", f"{key}={value}"]
    return ProcessPlan(name, command, ready_text=f"sawlog broker {node_id} ready on {address}")


def _check_port(address: Address, option: str) -> None:
    deadline = time.monotonic() + _PORT_PATIENCE_S
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
                return
            except OSError as error:
                if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                raise ClusterUnavailable(
                    f"cannot listen on {address}: {error.strerror}; choose another {option}, or"
                    " stop the process that uses it"
                ) from None


@contextlib.contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Hold the lock of the directory; ClusterUnavailable if another supervisor does."""
    data.mkdir(parents=True, exist_ok=True)
    path = data / LOCK_FILE
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise ClusterUnavailable(
                f"another `sawlog up` runs on {data} (process {owner}): stop it, or choose another"
                " --data and --port"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
