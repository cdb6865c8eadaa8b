"""What can go wrong on the line. None of these ever reaches an agent: the SDK catches them where it talks."""

from __future__ import annotations


class RecloserError(Exception):
    """Base of everything the SDK raises inside itself."""


class BadDocument(RecloserError):
    """A document from the server or the disk that does not validate; it is never applied."""


class BadAddress(RecloserError):
    """A control plane address that cannot be used."""


class Unreachable(RecloserError):
    """No answer: refused, reset, timed out, or an answer that is not HTTP."""


class Refused(RecloserError):
    """An answer that says no, in the protocol's one error shape."""

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.field = field
        self.retry_after_s = retry_after_s
