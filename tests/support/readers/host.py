"""A process of its own in which members live, so that they can die.

It takes commands as lines of JSON and tells events in the same way:
`{"join": name, "kind": ..., "bootstrap": ..., "group": ..., "topic": ..., "more": {...}}` and
`{"leave": name}`; it ends when its input does.
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

from support.readers.journal import DIED, PAUSED, RESUMED, Event, Journal
from support.readers.kinds import make_member

if TYPE_CHECKING:
    from support.readers.member import Member

END_S = 60
TESTS = Path(__file__).parents[2]


class Host:
    """The test's side: commands in, events into the journal."""

    def __init__(self, journal: Journal, bootstrap: str) -> None:
        self._journal = journal
        self._bootstrap = bootstrap
        self.members: list[str] = []
        self._everybody: list[str] = []  # with those who are about to leave
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.readers.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=TESTS,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # what was cut by its death is no event
                self._journal.tell(event_of(line))

    def join(self, kind: str, group: str, topic: str, name: str, **more: Any) -> None:
        self.members.append(name)
        self._everybody.append(name)
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
            raise AssertionError(f"a host of members died of itself: {self._said()}") from None

    def _said(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()[-2_000:]

    def kill(self) -> None:
        """kill -9: its members do nothing after this returns."""
        self._process.kill()
        self._process.wait(END_S)
        self._reader.join(END_S)
        self._tell_all(DIED)
        self.members, self._everybody = [], []
        self._close()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self._tell_all(PAUSED)

    def resume(self) -> None:
        self._tell_all(RESUMED)
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """All of its members leave, and it ends, if it has not before."""
        if self._process.poll() is not None:
            return
        for name in list(self.members):
            self.leave(name)
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(END_S)
        self._reader.join(END_S)
        said = self._said()
        self._close()
        assert code == 0, f"a host of members ended with {code}: {said}"

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _tell_all(self, what: str) -> None:
        for name in self._everybody:
            self._journal.tell(Event(time.monotonic(), name, what, {}))


def event_of(line: str) -> Event:
    event = Event(*json.loads(line))
    partitions = {int(key): value for key, value in event.partitions.items()}
    return event._replace(partitions=partitions, stamp=tuple(event.stamp))  # type: ignore[arg-type]


def main() -> None:
    members: dict[str, Member] = {}

    def tell(event: Event) -> None:
        os.write(1, (json.dumps(event) + "\n").encode())  # whole, or not at all

    for line in sys.stdin:
        command = json.loads(line)
        if "leave" in command:
            members[command["leave"]].leave()
        else:
            place = (command["bootstrap"], command["group"], command["topic"], command["join"])
            member = make_member(command["kind"], *place, tell, **command["more"])
            members[command["join"]] = member
    for member in members.values():
        member.leave()
    for member in members.values():
        member.wait(END_S)
    os._exit(0)


if __name__ == "__main__":
    main()
