"""A lock that the kernel gives back when its holder dies, however it dies."""

import fcntl
import os
from pathlib import Path


class Lock:
    """Held by one process at a time; the file names the holder and a note for whoever comes second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self, note: str = "") -> bool:
        """Try to take the lock; never waits."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._file = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n{note}".encode(), 0)
        return True

    def release(self) -> None:
        """Give the lock back; the file stays, since removing it would let two holders in."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def holder(self) -> tuple[int, str] | None:
        """Process id and note of whoever holds it, or None when it names nobody."""
        try:
            pid, _, note = self.path.read_text().partition("\n")
            return int(pid), note
        except (OSError, ValueError):
            return None
