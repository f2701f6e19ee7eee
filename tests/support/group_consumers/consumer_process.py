"""A child process with group members, which a test can kill or pause.

Commands go in and events come out as lines of JSON:
`{"join": name, "kind": ..., "bootstrap": ..., "group": ..., "topic": ..., "more": {...}}` and
`{"leave": name}`; the process ends when its input does.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.group_consumers.consumer_kinds import start_consumer
from support.group_consumers.event_journal import DIED, PAUSED, RESUMED, Event, EventJournal

if TYPE_CHECKING:
    from support.group_consumers.group_consumer import GroupConsumer

END_S = 60
TESTS = Path(__file__).parents[2]


class ConsumerProcess:
    """The parent's side: sends commands and records events in the journal."""

    def __init__(self, journal: EventJournal, bootstrap: str) -> None:
        self._journal = journal
        self._bootstrap = bootstrap
        self.members: list[str] = []
        self._all_names: list[str] = []  # including members that are leaving
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.group_consumers.consumer_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            cwd=TESTS,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # a kill can cut the last line
                self._journal.record(event_of(line))

    def join(self, kind: str, group: str, topic: str, name: str, **more: Any) -> None:
        self.members.append(name)
        self._all_names.append(name)
        place = {"bootstrap": self._bootstrap, "group": group, "topic": topic}
        self._command({"join": name, "kind": kind, **place, "more": more})

    def leave(self, name: str) -> None:
        self.members.remove(name)
        self._command({"leave": name})

    def _command(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"the consumer process died: {self._stderr_tail()}") from None

    def _stderr_tail(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()[-2_000:]

    def kill(self) -> None:
        """Kill the process with SIGKILL; its members do nothing after this returns."""
        self._process.kill()
        self._process.wait(END_S)
        self._reader.join(END_S)
        self._record_for_all(DIED)
        self.members, self._all_names = [], []
        self._close()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self._record_for_all(PAUSED)

    def resume(self) -> None:
        self._record_for_all(RESUMED)
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Make all members leave and wait for the end of the process, if it still runs."""
        if self._process.poll() is not None:
            return
        for name in list(self.members):
            self.leave(name)
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(END_S)
        self._reader.join(END_S)
        stderr = self._stderr_tail()
        self._close()
        assert code == 0, f"the consumer process ended with code {code}: {stderr}"

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _record_for_all(self, kind: str) -> None:
        for name in self._all_names:
            self._journal.record(Event(time.monotonic(), name, kind, {}))


def event_of(line: str) -> Event:
    event = Event(*json.loads(line))
    partitions = {int(key): value for key, value in event.partitions.items()}
    return event._replace(partitions=partitions, identity=tuple(event.identity))  # type: ignore[arg-type]


def main() -> None:
    members: dict[str, GroupConsumer] = {}

    def write(event: Event) -> None:
        os.write(1, (json.dumps(event) + "\n").encode())  # one atomic write per line

    for line in sys.stdin:
        command = json.loads(line)
        if "leave" in command:
            members[command["leave"]].leave()
        else:
            place = (command["bootstrap"], command["group"], command["topic"], command["join"])
            member = start_consumer(command["kind"], *place, write, **command["more"])
            members[command["join"]] = member
    for member in members.values():
        member.leave()
    for member in members.values():
        member.wait(END_S)
    os._exit(0)


if __name__ == "__main__":
    main()
