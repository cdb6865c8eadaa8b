"""Who runs for us, on disk: so that the next start can end what a killed supervisor left behind."""

import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.local.process import command_of
from deploy.local.secret import write_private
from deploy.local.wait import until


class Roster:
    """A file of process ids and their commands."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, running: Mapping[int, Sequence[str]]) -> None:
        """Note who runs now, if the disk takes it: a full one must not end what runs."""
        with contextlib.suppress(OSError):
            write_private(self._path, json.dumps({str(pid): list(command) for pid, command in running.items()}))

    def end_leftovers(self, patience_s: float = 4.0) -> list[str]:
        """End every noted process that still runs the noted command; return their names."""
        left = {pid: command for pid, command in self._noted().items() if _runs(pid, command)}
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in [pid for pid, command in left.items() if _runs(pid, command)]:
                os.kill(pid, number)
            until(lambda: not any(_runs(pid, command) for pid, command in left.items()), patience_s)
        return [" ".join(command[1:3]) for command in left.values()]

    def _noted(self) -> dict[int, list[str]]:
        try:
            return {int(pid): command for pid, command in json.loads(self._path.read_text()).items()}
        except (OSError, ValueError, AttributeError):
            return {}


def _runs(pid: int, command: Sequence[str]) -> bool:
    """True when this process has this very command line: a number may have been given anew."""
    return command_of(pid) == " ".join(command)
