"""Start and stop child processes that never outlive us."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from deploy.local.account import Account

PR_SET_PDEATHSIG = 1
# Loaded before any fork: between fork and exec there is no room for an import.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def spawn(
    command: Sequence[str | Path],
    *,
    account: Account | None = None,
    death_signal: int = signal.SIGTERM,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: int | IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own (Ctrl-C reaches only us), as `account` when given.

    On Linux the kernel sends `death_signal` when the *thread* that called this ends: call it from the main thread.
    """
    return subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
        env=None if env is None else dict(env),
        cwd=cwd,
        start_new_session=True,
        preexec_fn=_die_with_parent(death_signal),
        **(account.popen_options() if account else {}),
    )


def _die_with_parent(death_signal: int) -> Callable[[], None] | None:
    """What the child does before exec; Popen runs it after the change of user, which would clear the setting."""
    if _LIBC is None:
        return None
    libc, parent = _LIBC, os.getpid()

    def bind() -> None:
        libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before prctl took hold
            os._exit(1)

    return bind


def stop(process: subprocess.Popen[bytes], *signals: int, patience_s: float = 5.0) -> int:
    """Send each signal in turn until the child has ended; SIGKILL is the last. Return its exit code."""
    for number in (*signals, signal.SIGKILL):
        if process.poll() is not None:
            break
        process.send_signal(number)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()
