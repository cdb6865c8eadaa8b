"""What a process id stands for now: numbers are given anew, and files that name them grow stale."""

import subprocess
from pathlib import Path


def command_of(pid: int) -> str:
    """The command line of a living process, its parts joined by blanks; empty when there is none."""
    if pid <= 1:
        return ""
    if Path("/proc/self/cmdline").exists():
        return _from_proc(pid)
    shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip()


def _from_proc(pid: int) -> str:
    """Empty for a zombie too, which is what we want."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
