"""A gRPC probe: the standard health check, `grpc.health.v1.Health/Check`."""

from dataclasses import dataclass
from typing import ClassVar

from controlplane.probe_spec.conditions import certificate_field
from controlplane.probe_spec.fields import Spec, flag, host, refuse, said, text, whole
from controlplane.probe_spec.tls import name_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSpec(Spec):
    """A server, and which of its services must be serving."""

    KIND: ClassVar[str] = "grpc"
    LABEL: ClassVar[str] = "gRPC health"
    EXERCISES: ClassVar[str] = "grpc.health.v1.Health/Check of one service."
    SECRETS: ClassVar[tuple[str, ...] | None] = None

    host: str = said(host, label="Host", example="grpc.example.com")
    port: int = said(whole(1, 65_535), 443, label="Port", input="number")
    service: str = said(text(longest=200), "", label="Service", help="Empty: the server as a whole.")
    tls: bool = said(flag, True, label="Over TLS", input="flag")
    server_name: str = said(
        name_or_none,
        "",
        label="TLS name and authority",
        help="Where it is another than the host's.",
    )
    certificate_days: float | None = certificate_field()

    def check(self) -> None:
        """Without TLS there is no certificate."""
        if not self.tls and self.certificate_days is not None:
            refuse("certificate_days", "without TLS there is no certificate", "switch TLS on, or leave this empty")

    @property
    def target(self) -> tuple[str, int]:
        """As given."""
        return self.host, self.port

    @property
    def origin(self) -> str:
        """With the encryption: what was written for TLS is not sent in the clear."""
        return f"grpc{'s' if self.tls else ''}:{self.host.casefold()}:{self.port}"
