"""A Redis or Valkey probe: one command that reads."""

from dataclasses import dataclass
from typing import ClassVar

from controlplane.probe_spec.conditions import BodyCondition, body_field, certificate_field
from controlplane.probe_spec.fields import Spec, choice, flag, host, refuse, said, text, whole
from controlplane.probe_spec.tls import name_or_none

WITHOUT_KEY = ("PING", "DBSIZE")
COMMANDS = (*WITHOUT_KEY, "GET", "EXISTS", "TTL", "STRLEN", "LLEN", "SCARD", "HLEN", "ZCARD", "XLEN")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSpec(Spec):
    """A server, and a command whose answer must be as it should."""

    KIND: ClassVar[str] = "redis"
    LABEL: ClassVar[str] = "Redis"
    EXERCISES: ClassVar[str] = "One command that reads."
    SECRETS: ClassVar[tuple[str, ...] | None] = ("password",)

    host: str = said(host, label="Host", example="cache.example.com")
    port: int = said(whole(1, 65_535), 6379, label="Port", input="number")
    tls: bool = said(flag, False, label="Over TLS", input="flag")
    server_name: str = said(
        name_or_none, "", label="Name on the certificate", help="Where it is another than the host's."
    )
    user: str = said(text(longest=100), "", label="User", help="Of its access list; empty: the default one.")
    database: int = said(whole(0, 10_000), 0, label="Database", input="number")
    command: str = said(
        choice(*COMMANDS, message="a probe never changes anything"),
        "PING",
        label="Command",
        input="choice",
        choices=tuple((each, each) for each in COMMANDS),
    )
    key: str = said(text(longest=500), "", label="Key", help="For every command but PING and DBSIZE.")
    body_condition: BodyCondition | None = body_field("Its answer must hold")
    certificate_days: float | None = certificate_field()

    def check(self) -> None:
        """A key where the command wants one; a certificate where there is TLS."""
        if (self.command in WITHOUT_KEY) is bool(self.key):
            wants = "takes none: leave it empty" if self.key else "reads one: name it"
            refuse("key", f"{self.command} and this key do not go together", f"{self.command} {wants}")
        if not self.tls and self.certificate_days is not None:
            refuse("certificate_days", "without TLS there is no certificate", "switch TLS on, or leave this empty")

    @property
    def target(self) -> tuple[str, int]:
        """As given."""
        return self.host, self.port

    @property
    def origin(self) -> str:
        """With the encryption: what was written for TLS is not sent in the clear."""
        return f"redis{'s' if self.tls else ''}:{self.host.casefold()}:{self.port}"
