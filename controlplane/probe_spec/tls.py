"""A TLS probe: a handshake, and how long the certificate is still good for."""

from dataclasses import dataclass
from typing import ClassVar

from controlplane.probe_spec.conditions import certificate_field
from controlplane.probe_spec.fields import Spec, host, said, whole


def name_or_none(value: object, where: str) -> str:
    """A host name, or nothing."""
    return host(value, where) if value else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec(Spec):
    """A server whose certificate must be trusted, be of its name, and not be about to expire."""

    KIND: ClassVar[str] = "tls"
    LABEL: ClassVar[str] = "TLS"
    EXERCISES: ClassVar[str] = "A handshake with a certificate that is trusted and of this name; nothing is sent."

    host: str = said(host, label="Host", example="api.example.com")
    port: int = said(whole(1, 65_535), 443, label="Port", input="number")
    server_name: str = said(
        name_or_none, "", label="Name on the certificate", help="Where it is another than the host's."
    )
    certificate_days: float | None = certificate_field()

    @property
    def target(self) -> tuple[str, int]:
        """As given."""
        return self.host, self.port
