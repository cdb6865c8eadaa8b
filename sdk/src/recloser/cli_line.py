"""What the commands share that ask a control plane: settings, one question at a time, and troubles that name the mend.

Exit statuses are the same for all of them, and part of the interface (docs/cli.md). A key is never printed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from recloser.cache import DocumentCache, default_directory
from recloser.config_sync import Documents
from recloser.errors import BadAddress, BadDocument, Refused, Unreachable
from recloser.transport import Transport, decode, public_address
from recloser.version import __version__

OK = 0
NO = 1
"""Asked and answered, and the answer is bad news."""
UNUSABLE = 2
"""It cannot be asked as it is: an argument, a setting or a file."""
AWAY = 3
"""The control plane was not reached, or it cannot answer now."""
KEY = 4
"""The control plane does not take the key."""

TIMEOUT_S = 5.0


Found = tuple[int, Mapping[str, Any], list[str]]
"""What a command found: its exit status, the object for `--json`, the lines for people."""


class Trouble(Exception):
    """Why a question has no answer, what would mend it, and the exit status that says so."""

    def __init__(self, status: int, message: str, mend: str) -> None:
        super().__init__(f"{message}; {mend}")
        self.status = status
        self.message = message
        self.mend = mend

    def to_json(self) -> dict[str, str]:
        """As `--json` prints it."""
        return {"message": self.message, "mend": self.mend}


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options of every command that asks."""
    parser.add_argument("--url", help="the control plane (default: RECLOSER_URL); the key is read from RECLOSER_KEY")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--timeout", type=_seconds, default=TIMEOUT_S, metavar="S", help="per answer (default: 5)")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.0 < value <= 300.0:
        raise argparse.ArgumentTypeError("between 0 and 300 seconds")
    return value


class Line:
    """One control plane and one key, asked once or twice and closed. Raises `Trouble` and nothing else."""

    def __init__(self, args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> None:
        self.url = str(args.url or environ.get("RECLOSER_URL") or "")
        self._key = environ.get("RECLOSER_KEY") or ""
        self._timeout_s = float(args.timeout)
        if not self.url:
            raise Trouble(UNUSABLE, "no control plane is named", "set RECLOSER_URL, or give --url https://…")
        if not self._key:
            raise Trouble(UNUSABLE, "there is no key", "set RECLOSER_KEY to the agent's key")
        try:
            self.transport = Transport(
                self.url, self._key, timeout_s=self._timeout_s, user_agent=f"recloser-cli/{__version__}"
            )
        except BadAddress as problem:
            raise Trouble(UNUSABLE, str(problem), "correct RECLOSER_URL or RECLOSER_KEY") from None
        self._shown = public_address(self.url)

    def get(self, path: str) -> dict[str, Any]:
        """The object at a path under `/agent/v1`."""
        try:
            found = decode(self.transport.get(path).body)
        except Refused as problem:
            raise _refused(problem) from None
        except (Unreachable, ValueError) as problem:
            raise Trouble(AWAY, f"{self._shown} gives no usable answer ({problem})", _AWAY_MEND) from None
        if not isinstance(found, dict):
            raise Trouble(AWAY, f"{self._shown} is no control plane", "look whether RECLOSER_URL is its address")
        return found

    def stream_is_live(self) -> bool:
        """Does an event arrive on the stream in time? A proxy that holds it back makes agents poll."""
        end = time.monotonic() + self._timeout_s
        try:
            stream = self.transport.stream("/stream")
        except Unreachable:
            return False
        try:
            return _hears(stream, end)
        except (Unreachable, Refused):
            return False
        finally:
            stream.close()

    def documents(self) -> Documents:
        """Both documents of the control plane, checked as a client checks them."""
        documents, now = Documents(), time.monotonic()
        try:
            documents.take_config(self.get("/config"), etag=None, now=now)
            documents.take_circuits(self.get("/circuits"), etag=None, now=now)
        except BadDocument as problem:
            mend = "upgrade recloser here, or the control plane there"
            raise Trouble(AWAY, f"{self._shown} sends what this version cannot read ({problem})", mend) from None
        return documents

    def saved(self) -> tuple[Documents, float] | None:
        """The documents that a client on this machine saved for this control plane and key, and their age."""
        documents = Documents()
        loaded = DocumentCache(default_directory(), url=self.url, key=self._key).load()
        if loaded is None:
            return None
        try:
            documents.load(loaded[0], age_s=loaded[1], now=time.monotonic())
        except BadDocument:
            return None
        return documents, loaded[1]

    def close(self) -> None:
        """Hang up."""
        self.transport.close()


_AWAY_MEND = "look whether the address is right, the control plane is up, and nothing between you blocks it"


def _refused(problem: Refused) -> Trouble:
    if problem.status in (401, 403):
        mend = "take RECLOSER_KEY from the dashboard (Settings, Keys); a key is shown once and may have been revoked"
        return Trouble(KEY, f"the control plane does not take the key ({problem})", mend)
    if problem.status == 404:
        mend = "correct RECLOSER_URL, or upgrade the control plane"
        return Trouble(AWAY, f"the address knows no such route ({problem})", mend)
    if problem.status in (429, 503):
        return Trouble(AWAY, f"the control plane cannot answer now ({problem})", "ask again in a few seconds")
    return Trouble(AWAY, f"the control plane refuses ({problem})", "its log says why")


def _hears(stream: Any, end: float) -> bool:
    import select

    while (left := end - time.monotonic()) > 0:
        if select.select([stream], [], [], left)[0] and any(name for name, _ in stream.events()):
            return True
    return False


def answered(command: str, args: argparse.Namespace, work: Callable[[], Found]) -> int:
    """Print what a command found, as lines or as JSON; a trouble on stderr, or as `error` in the JSON."""
    _bear_any_letter()
    try:
        status, found, lines = work()
    except Trouble as trouble:
        status, found, lines = trouble.status, {"error": trouble.to_json()}, []
        if not args.json:
            sys.stderr.write(f"recloser {command}: {shown(str(trouble), 1000)}\n")
    if args.json:
        lines = [json.dumps(found, indent=2, sort_keys=True, allow_nan=False)]
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `recloser … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _bear_any_letter() -> None:
    """A terminal that lacks a letter gets its number, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def shown(text: Any, longest: int = 100) -> str:
    """Text of whoever named a tool, fit for a terminal: no control characters, not too long."""
    safe = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(text)[:longest])
    return safe + ("…" if len(str(text)) > longest else "")


def since(seconds: float) -> str:
    """A span as people say it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
