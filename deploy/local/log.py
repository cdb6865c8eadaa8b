"""One log of many processes: each line begins with the name of who said it."""

import os
import sys
from pathlib import Path

COLOURS = {"scheduler": 35, "web": 36, "worker": 32, "setup": 33, "recloser": 1}
WIDTH = 9


class Log:
    """Writes whole lines; colours the names on a terminal only (NO_COLOR is heeded)."""

    def __init__(self) -> None:
        self._coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._rest: dict[str, bytes] = {}
        self.broken = False

    def say(self, text: str) -> None:
        """A line of our own."""
        self.line("recloser", text)

    def line(self, name: str, text: str) -> None:
        """One line under a name."""
        label = f"{name:<{WIDTH}} |"
        if self._coloured:
            label = f"\033[{COLOURS.get(name, 34)}m{label}\033[0m"
        self._write(f"{label} {text}")

    def _write(self, text: str) -> None:
        """Without a reader (its pipe or terminal is gone) we fall silent instead of failing while we stop."""
        try:
            print(text, flush=True)
        except OSError:
            self.broken = True
            sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (until we end)

    def feed(self, name: str, data: bytes) -> None:
        """Bytes as they come from a process; what is no whole line yet waits."""
        *lines, self._rest[name] = (self._rest.get(name, b"") + data).split(b"\n")
        for line in lines:
            if line.strip():  # blank lines set off paragraphs, of which there are none between many voices
                self.line(name, line.decode(errors="replace").rstrip("\r"))

    def flush(self, name: str) -> None:
        """The last line of a process that ended in the middle of it."""
        if rest := self._rest.pop(name, b""):
            self.line(name, rest.decode(errors="replace"))
