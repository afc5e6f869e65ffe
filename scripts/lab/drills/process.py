"""A process of the lab's own that a drill starts, listens to, kills, stops and lets go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from lab.base import config
from lab.base.errors import LabError
from lab.base.language import say

SECONDS = 60.0  # more than any of them takes on a busy machine: a drill that waits longer has failed

Event = dict[str, Any]


class Child:
    """A `lab` command as a process of its own; what it says is kept in `events`, one for each line of JSON.

    arguments: those of the command. environment: what is added to this process's own; a connection string goes there, so that
    no password stands in a process list.
    """

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        self.name = " ".join(arguments[:3])
        self.events: list[Event] = []
        self._unread: SimpleQueue[Event | None] = SimpleQueue()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lab", *arguments],
            env=config.for_lab_process(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        self._reader = threading.Thread(target=self._read, name=f"reader of {self.name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def next(self) -> Event | None:
        """The next event, None when the process has said its last; LabError if nothing comes in time."""
        try:
            event = self._unread.get(timeout=SECONDS)
        except Empty:
            raise LabError(
                say(
                    f"`lab {self.name}` said nothing for {SECONDS:.0f} s. The drill is off; nothing of it is left.",
                    f"`lab {self.name}` não disse nada por {SECONDS:.0f} s. O ensaio parou; nada dele ficou.",
                )
            ) from None
        if event is None:
            self._unread.put(None)  # for the next call
        else:
            self.events.append(event)
        return event

    def heard(self) -> list[Event]:
        """What it has said since it was listened to last, without waiting; LabError if it has ended, as it should not have."""
        known = len(self.events)
        with suppress(Empty):
            while (event := self._unread.get_nowait()) is not None:
                self.events.append(event)
            self._unread.put(None)
            raise self._ended_early("it was asked to")
        return self.events[known:]

    def wait_for(self, *names: str) -> Event:
        """The next event of one of these names; LabError if the process ends before."""
        while (event := self.next()) is not None:
            if event["event"] in names:
                return event
        raise self._ended_early(" / ".join(names))

    def drain(self) -> None:
        """Read to the process's end; LabError if it did not end well."""
        while self.next() is not None:
            pass
        if self._process.wait(SECONDS) != 0:
            raise self._ended_early("its end")

    def go_on(self) -> None:
        """Let it go on from the point at which it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL: it can do nothing more, not even say so. What it had said is heard."""
        self._process.kill()
        self._process.wait(SECONDS)
        while self.next() is not None:
            pass

    def terminate(self) -> None:
        """SIGTERM: it is asked to end."""
        self._process.terminate()

    def freeze(self) -> None:
        """SIGSTOP, and wait until every thread of it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, whatever it does, and forget it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # a line that it did not live to read
                    pipe.close()
        self._complaints.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):  # half a line, of a process that was killed
                self._unread.put(json.loads(line))
        self._unread.put(None)

    def _ended_early(self, wanted: str) -> LabError:
        status = self._process.wait(SECONDS)
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").strip().splitlines()
        why = said[-1] if said else "-"
        return LabError(
            say(
                f"`lab {self.name}` ended with status {status} before {wanted}: {why}",
                f"`lab {self.name}` terminou com status {status} antes de {wanted}: {why}",
            )
        )
