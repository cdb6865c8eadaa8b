"""GET stream: the circuits at connect, then every change as it happens, until either side goes."""

from __future__ import annotations

from controlplane.delivery.documents import Circuits
from controlplane.delivery.hub import BYE, Hub, Listener, event
from controlplane.edge import limits, streaming
from controlplane.edge.http import Receive, Send, unavailable
from controlplane.services.ingest import Caller


async def serve(hub: Hub, caller: Caller, receive: Receive, send: Send) -> None:
    """One agent's stream."""
    if hub.leaving or hub.streams >= limits.most_streams():
        raise unavailable(retry_after_s=5)
    life = streaming.Life()
    listener = Listener(caller.environment_id, caller.key_id, life.end)
    async with hub.listening(listener) as document:
        await life.run(_tell(listener, document, send), receive, send)


async def _tell(listener: Listener, document: Circuits, send: Send) -> None:
    await streaming.begin(send)
    await streaming.write(send, event("circuits", document.wire(document.now_s())))
    await streaming.write(send, event("config", {"epoch": document.epoch, "version": document.config}))
    told = b""
    while told is not BYE:
        told = await listener.next()
        await streaming.write(send, told)
