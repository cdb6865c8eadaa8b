"""A TCP probe: a connection, and where wanted the greeting that a server sends by itself."""

from dataclasses import dataclass
from typing import ClassVar

from controlplane.probe_spec.conditions import BodyCondition, body_field
from controlplane.probe_spec.fields import Spec, host, said, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSpec(Spec):
    """A port that must accept, and what it must say first."""

    KIND: ClassVar[str] = "tcp"
    LABEL: ClassVar[str] = "TCP"
    EXERCISES: ClassVar[str] = "A connection; nothing is sent. It does not prove that anybody is at work behind it."

    host: str = said(host, label="Host", example="smtp.example.com")
    port: int = said(whole(1, 65_535), label="Port", input="number", example="25")
    body_condition: BodyCondition | None = body_field("Its greeting must hold")

    @property
    def target(self) -> tuple[str, int]:
        """As given."""
        return self.host, self.port
