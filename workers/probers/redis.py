"""The Redis prober: one command that reads, in the protocol's own words."""

from collections.abc import Mapping
from typing import Any

import httpcore
from recloser.core.probe import Fault

from controlplane.masking import MASK
from controlplane.probe_spec.redis import RedisSpec
from workers.egress import BODY_CAP, GuardedBackend
from workers.probers.answer import Fell, Findings, Unmet
from workers.probers.stream import connection

LONGEST_LINE = 4096
_CREDENTIALS = ("NOAUTH", "WRONGPASS", "NOPERM")
_ASKED_BADLY = ("WRONGTYPE", "ERR")


def asked(spec: RedisSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The command."""
    told = {"method": f"{spec.command} {spec.key}".strip(), "address": spec.shown_address}
    return told | ({"password": MASK} if secrets.get("password") else {})


async def converse(
    spec: RedisSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Sign in where there is a password, choose the database, ask."""
    name = (spec.server_name or spec.host) if spec.tls else ""
    async with connection(backend, spec.host, spec.port, found, tls_name=name) as stream:
        talk = _Talk(stream)
        if password := secrets.get("password"):
            await talk.say("AUTH", *([spec.user] if spec.user else []), password)
        if spec.database:
            await talk.say("SELECT", str(spec.database))
        found.seen.body = await talk.say(spec.command, *([spec.key] if spec.key else []))
        found.seen.cut = len(found.seen.body) >= BODY_CAP


class _Talk:
    """Commands and answers, one by one; an answer is read no further than the cap."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream, self._left = stream, b""

    async def say(self, *words: str) -> str:
        """The answer as text; nothing there is the empty text."""
        parts = [b"*%d\r\n" % len(words)]
        parts += [b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words]
        await self._stream.write(b"".join(parts))
        line = await self._line()
        mark, rest = line[:1], line[1:]
        if mark == "-":
            raise _refusal(words[0], rest)
        if mark == "$":
            return await self._bulk(int(rest))
        if mark in "+:":
            return rest
        raise Fell(Fault.BROKEN, "this is not how Redis answers")

    async def _line(self) -> str:
        while b"\r\n" not in self._left:
            await self._more()
            if len(self._left) > LONGEST_LINE and b"\r\n" not in self._left:
                raise Fell(Fault.BROKEN, "this is not how Redis answers")
        line, self._left = self._left.split(b"\r\n", 1)
        return line.decode(errors="replace")

    async def _bulk(self, length: int) -> str:
        wanted = min(max(length, 0), BODY_CAP)
        while len(self._left) < wanted:
            await self._more()
        text, self._left = self._left[:wanted], self._left[wanted:].removeprefix(b"\r\n")
        return text.decode(errors="replace")

    async def _more(self) -> None:
        more = await self._stream.read(65_536)
        if not more:
            raise httpcore.ReadError("it ended early")
        self._left += more


def _refusal(command: str, said: str) -> Exception:
    """What an error means; of its text only the kind."""
    kind = said.split(" ", 1)[0]
    if kind in _CREDENTIALS or (command == "AUTH" and kind in _ASKED_BADLY):
        return Fell(Fault.CREDENTIALS, "the server does not let this user in, or not ask this")
    if kind in _ASKED_BADLY:
        return Fell(Fault.BAD_REQUEST, f"the server refused the command ({kind})")
    return Unmet("answer", "an answer", kind[:20] if kind.isalpha() and kind.isupper() else "an error")
