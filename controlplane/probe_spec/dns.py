"""A DNS probe: one question to one name server, and the records that must be in its answer."""

from dataclasses import dataclass
from typing import Any, ClassVar

from controlplane.probe_spec.conditions import listed_field
from controlplane.probe_spec.fields import Spec, choice, host, read_text, refuse, said, whole

RECORDS = ("A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT")


def _name(value: Any, where: str) -> str:
    name = read_text(value, where, 253, 1).strip()
    if not name.isascii() or any(not 0 < len(label) <= 63 for label in name.removesuffix(".").split(".")):
        refuse(where, "this is no domain name", "write it as api.example.com, in ASCII, each part at most 63 letters")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsSpec(Spec):
    """A name, the kind of record, and what the answer must hold."""

    KIND: ClassVar[str] = "dns"
    LABEL: ClassVar[str] = "DNS"
    EXERCISES: ClassVar[str] = "One question to one name server."
    AT: ClassVar[str] = "server"

    name: str = said(_name, label="Name", example="api.example.com")
    record: str = said(
        choice(*RECORDS, message="no such kind of record"),
        "A",
        label="Record",
        input="choice",
        choices=tuple((each, each) for each in RECORDS),
    )
    server: str = said(
        host, label="Name server", example="1.1.1.1", help="Whom to ask: the one that your agents depend on."
    )
    port: int = said(whole(1, 65_535), 53, label="Port", input="number")
    expected: tuple[str, ...] = listed_field(
        "Records that must be there", "As a zone file writes them, one a line. Empty: any record will do.", "192.0.2.7"
    )

    @property
    def target(self) -> tuple[str, int]:
        """The name server."""
        return self.server, self.port
