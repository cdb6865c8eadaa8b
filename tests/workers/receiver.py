"""Those who are told: a webhook receiver that fails in every way, and a mail server that keeps what it gets."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import threading
from dataclasses import dataclass, field
from email import message_from_string, policy
from email.message import EmailMessage

from tests.workers.vendor import Answer, Seen, Vendor, hang, reply


class Receiver(Vendor):
    """Answers /hook by a script, one entry an attempt, and 200 when it has run out."""

    def __init__(self, *script: Answer) -> None:
        super().__init__()
        self.script = list(script)
        self.routes["/hook"] = self._next

    @property
    def hook(self) -> str:
        return f"{self.url}/hook"

    @property
    def bodies(self) -> list[dict]:
        return [json.loads(each.body) for each in self.seen]

    @property
    def kept(self) -> dict[str, dict]:
        """What a receiver holds that goes by the delivery's id."""
        return {each.headers["recloser-delivery"]: json.loads(each.body) for each in self.seen}

    async def _next(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        await (self.script.pop(0) if self.script else reply(200))(seen, writer)


STORES_THEN_HANGS = hang
"""What a receiver looks like that took the message and never says so."""


def proves(seen: Seen, secret: str) -> bool:
    """Check a signature as the documentation tells receivers to."""
    parts = dict(part.split("=", 1) for part in seen.headers["recloser-signature"].split(","))
    expected = hmac.new(secret.encode(), parts["t"].encode() + b"." + seen.body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts["v1"])


@dataclass
class MailServer:
    """Just enough SMTP; `refuses` is the code that every recipient meets."""

    refuses: int | None = None
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def __enter__(self) -> MailServer:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._session, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"220 sink\r\n")
            while line := (await reader.readline()).decode().strip():
                writer.write(await self._answer(line, reader, writer))
                await writer.drain()
                if line.upper() == "QUIT":
                    break
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        verb = line.upper()
        if verb.startswith("RCPT"):
            self.recipients.append(line.partition(":")[2].strip("<> "))
            return f"{self.refuses} no such user\r\n".encode() if self.refuses else b"250 ok\r\n"
        if verb == "DATA":
            writer.write(b"354 go on\r\n")
            text = (await reader.readuntil(b"\r\n.\r\n")).decode()[:-3]
            self.mails.append(message_from_string(text, policy=policy.default))
        return b"221 bye\r\n" if verb == "QUIT" else b"250 ok\r\n"
