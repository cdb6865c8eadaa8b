"""The last good documents on disk, so that a start without the control plane is not a start without policies.

One file per control plane and key, readable by its owner only, replaced whole by a rename. First line: checksum of the
rest.
A cache that cannot be read or written is never an error for the agent; `problem` says what is wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recloser.errors import BadDocument

FORMAT = 1
MAX_BYTES = 32 * 1024 * 1024


class DocumentCache:
    """Loads and saves the documents of one (url, key) under `directory`; without a directory it does nothing.

    `wall` is the wall clock in POSIX seconds: the only clock that two process lives share.
    """

    def __init__(self, directory: Path | None, *, url: str, key: str, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self.problem: str | None = None
        self.path = None if directory is None else directory / f"{_name(url, key)}.json"

    def load(self) -> tuple[dict[str, Any], float] | None:
        """The saved documents by name and their age in seconds; None if there are none or they are damaged."""
        if self.path is None:
            return None
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            documents, saved_at = _opened(data)
        except FileNotFoundError:
            return None
        except (OSError, BadDocument) as problem:
            self.problem = f"the saved documents cannot be used: {_said(problem)}"
            return None
        return documents, max(0.0, self._wall() - saved_at)

    def save(self, documents: Mapping[str, Any]) -> bool:
        """Replace the file whole; False, with `problem` set, where the disk refuses."""
        if self.path is None:
            return False
        try:
            _replace(self.path, _closed(documents, self._wall()))
        except (OSError, ValueError, TypeError, RecursionError) as problem:
            self.problem = f"the documents cannot be saved: {_said(problem)}"
            return False
        self.problem = None
        return True


def default_directory(environ: Mapping[str, str] = os.environ) -> Path | None:
    """RECLOSER_CACHE_DIR, else the user's cache folder; None where neither can be told."""
    if given := environ.get("RECLOSER_CACHE_DIR"):
        return Path(given)
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base) / "recloser"
    try:
        return Path.home() / ".cache" / "recloser"
    except RuntimeError:
        return None


def _name(url: str, key: str) -> str:
    """One name per control plane and key. The key's secret is not recoverable from it."""
    return hashlib.sha256(f"{url}\n{key}".encode("utf-8", "replace")).hexdigest()[:24]


def _closed(documents: Mapping[str, Any], saved_at: float) -> bytes:
    body = json.dumps({"format": FORMAT, "saved_at": saved_at, "documents": documents}, allow_nan=False).encode("ascii")
    return hashlib.sha256(body).hexdigest().encode("ascii") + b"\n" + body


def _opened(data: bytes) -> tuple[dict[str, Any], float]:
    checksum, _, body = data.partition(b"\n")
    if len(data) > MAX_BYTES or hashlib.sha256(body).hexdigest().encode("ascii") != checksum:
        raise BadDocument("its checksum does not fit")
    try:
        saved = json.loads(body)
        if saved["format"] != FORMAT:
            raise BadDocument(f"its format {saved['format']!r} is not known here")
        documents, saved_at = dict(saved["documents"]), float(saved["saved_at"])
    except (ValueError, LookupError, TypeError, RecursionError) as problem:
        raise BadDocument("it is not what was saved") from problem
    return documents, saved_at


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _said(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"[:200]
