"""Keeps a handful of processes running, shows what they say, and ends them all when told to."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.local import child
from deploy.local.log import Log
from deploy.local.problem import Problem
from deploy.local.program import Program
from deploy.local.roster import Roster

FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 15.0
# A process that ran this long has recovered: its next fault starts from the first delay again.
STEADY_S = 60.0
# Longer than uvicorn's three seconds for open streams; a Celery worker ends its tasks meanwhile.
PATIENCE_S = 8.0


@dataclass
class Child:
    """One program and the process that runs it now, if any."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    due_at: float = 0.0

    @property
    def running(self) -> bool:
        """True until we have seen it end."""
        return self.process is not None


class Stopped(Exception):
    """SIGINT, SIGTERM or SIGHUP came."""


class Supervisor:
    """Everything happens in one thread (the kernel ties the children to it), woken by output and signals."""

    def __init__(self, *, log: Log, folder: Path, roster: Roster) -> None:
        self._log = log
        self.environment: Mapping[str, str] = os.environ
        self._folder = folder
        self._roster = roster
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._signals = 0

    def listen(self) -> None:
        """Take signals from here on; a second one ends everything at once."""
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._selector.register(read, selectors.EVENT_READ, None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1

    def run_to_end(self, program: Program) -> None:
        """Run one program and wait; raise a Problem when it fails."""
        one = Child(program)
        self._children = [one]
        self._start(one)
        while one.running:
            self._check_signals()
            self._turn(1.0)
            code = self._reap(one)
            if code:
                raise Problem(f"`{' '.join(program.command[1:])}` failed with code {code}: the lines above say why")

    def run(self, programs: Sequence[Program], each_turn: Callable[[], None]) -> None:
        """Start the programs and keep them running until a signal comes."""
        self._children = [Child(program) for program in programs]
        while True:
            self._check_signals()
            for one in self._children:
                self._tend(one)
            each_turn()
            self._turn(0.5)

    def stop(self) -> None:
        """End all children, each in its turn but waiting for all at once."""
        # The signal that brought us here may already have been followed by the impatient second one.
        seen = min(self._signals, 1)
        for one in self._children:
            if one.process:
                one.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while any(one.running for one in self._children):
            self._turn(0.1)
            for one in self._children:
                self._reap(one)
            if time.monotonic() > deadline or self._signals > seen:
                self._kill_all()
        self._roster.write({})

    def _kill_all(self) -> None:
        for one in self._children:
            if one.process:
                self._log.say(f"{one.program.name} does not end: killed")
                one.process.kill()
                one.process.wait()

    def _check_signals(self) -> None:
        if self._signals:
            raise Stopped

    def _tend(self, one: Child) -> None:
        """Start what is due; note what ended, and when to start it again."""
        now = time.monotonic()
        if not one.running:
            if now >= one.due_at:
                self._start(one)
            return
        code = self._reap(one)
        if code is None:
            return
        one.delay_s = FIRST_DELAY_S if now - one.started_at > STEADY_S else one.delay_s
        self._log.say(f"{one.program.name} {_how(code)}: started again in {one.delay_s:g} s")
        one.due_at = now + one.delay_s
        one.delay_s = min(one.delay_s * 2, LONGEST_DELAY_S)

    def _start(self, one: Child) -> None:
        try:
            one.process = child.spawn(
                one.program.command, env=self.environment, cwd=self._folder, output=subprocess.PIPE
            )
        except OSError as error:
            raise Problem(f"cannot start {one.program.command[0]} ({error.strerror}): run `make setup` again") from None
        one.started_at = time.monotonic()
        assert one.process.stdout
        os.set_blocking(one.process.stdout.fileno(), False)
        self._selector.register(one.process.stdout, selectors.EVENT_READ, one)
        self._roster.write({c.process.pid: c.program.command for c in self._children if c.process})

    def _reap(self, one: Child) -> int | None:
        """The exit code of a child that has ended, else None."""
        if one.process is None or (code := one.process.poll()) is None:
            return None
        assert one.process.stdout
        self._read(one)
        self._log.flush(one.program.name)
        self._forget_output(one)
        one.process = None
        return code

    def _turn(self, timeout_s: float) -> None:
        """Wait for output or a signal, and pass the output on."""
        for key, _ in self._selector.select(timeout_s):
            if key.data is None:
                os.read(key.fd, 512)
            elif not self._read(key.data):
                self._forget_output(key.data)

    def _read(self, one: Child) -> bool:
        """Pass on what there is; False once the output is closed."""
        assert one.process and one.process.stdout
        while not one.process.stdout.closed:
            try:
                data = os.read(one.process.stdout.fileno(), 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._log.feed(one.program.name, data)
        return False

    def _forget_output(self, one: Child) -> None:
        assert one.process and one.process.stdout
        if not one.process.stdout.closed:
            self._selector.unregister(one.process.stdout)
            one.process.stdout.close()


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
