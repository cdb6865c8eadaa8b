"""A PostgreSQL probe: one statement that reads, in a transaction that cannot write."""

import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

from controlplane.probe_spec.conditions import BodyCondition, body_field
from controlplane.probe_spec.fields import Spec, choice, host, read_text, refuse, said, text, whole

_LITERALS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(\$[A-Za-z_]*\$).*?\1|--[^\r\n]*|/\*.*?\*/", re.DOTALL)
_READS = re.compile(r"\s*(select|values|with|table)\b", re.IGNORECASE)
_WRITES = re.compile(
    r"\b(insert|update|delete|merge|into|copy|call|do|create|drop|alter|truncate|grant|lock|listen|notify|set|vacuum)\b",
    re.IGNORECASE,
)
_ACTS = re.compile(
    r"\b(pg_(?!is_in_recovery\b|postmaster_start_time\b|database_size\b|last_wal_replay_lsn\b|typeof\b)\w+"
    r"|lo_\w+|dblink\w*|set_config|nextval|setval|query_to_xml\w*|currval|txid_current|ts_stat"
    r"|ts_rewrite)\s*\(",
    re.IGNORECASE,
)
_MEND = "give one SELECT without semicolon, such as SELECT count(*) FROM orders WHERE now() - made_at < '1 hour'"


def statement(value: Any, where: str) -> str:
    """One statement that reads. The server has the last word: it runs it read-only, inside a subquery."""
    given = read_text(value, where, 4000, 1).strip()
    if "\\" in given or any(_prefixed(given, each.start()) for each in _LITERALS.finditer(given)):
        refuse(where, "escapes are not understood here", "write plain literals")
    if any(_nested(each[0]) for each in _LITERALS.finditer(given)):
        refuse(where, "a comment within a comment is not understood here", "leave the inner comment out")
    bare = _LITERALS.sub(_blank, given)
    if not _READS.match(bare) or ";" in bare or any(quote in bare.replace("''", "") for quote in "'\"$"):
        refuse(where, "this is not a single statement that reads", _MEND)
    if found := _WRITES.search(bare) or _ACTS.search(_LITERALS.sub(_named, given)):
        refuse(where, f"{found[1].lower()} may change something, and a probe never does", _MEND)
    if not _balanced(bare):
        refuse(where, "its brackets do not match", _MEND)
    return given


def _prefixed(text: str, start: int) -> bool:
    """Whether a literal begins with more than its quote, as E'' and U&'' do, which are read by other rules."""
    return text[start] in "'\"$" and start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_&$")


def _nested(literal: str) -> bool:
    """Whether a comment begins another: the server counts them, and would read on where we had stopped."""
    return literal.startswith("/*") and "/*" in literal[2:]


def _blank(found: re.Match[str]) -> str:
    """A comment is a space to the server, so that a name and its bracket still belong together."""
    return " " if found[0].startswith(("--", "/*")) else " '' "


def _named(found: re.Match[str]) -> str:
    """A name in quotes is the same name."""
    return found[0].strip('"') if found[0].startswith('"') else _blank(found)


def _balanced(bare: str) -> bool:
    depths = list(accumulate({"(": 1, ")": -1}.get(each, 0) for each in bare))
    return min(depths) >= 0 and depths[-1] == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSpec(Spec):
    """A database, and a statement whose first row must be as it should."""

    KIND: ClassVar[str] = "postgres"
    LABEL: ClassVar[str] = "PostgreSQL"
    EXERCISES: ClassVar[str] = "One SELECT in a read-only transaction. Use a role that may do no more."
    SECRETS: ClassVar[tuple[str, ...] | None] = ("password",)

    host: str = said(host, label="Host", example="db.example.com")
    port: int = said(whole(1, 65_535), 5432, label="Port", input="number")
    database: str = said(text(1, 63), label="Database", example="orders")
    user: str = said(text(1, 63), label="User", example="recloser_probe")
    tls: str = said(
        choice("verify", "encrypt", "off"),
        "verify",
        label="TLS",
        input="choice",
        choices=(("verify", "certificate checked"), ("encrypt", "encrypted, unchecked"), ("off", "none")),
    )
    statement: str = said(statement, "SELECT 1 AS ok", label="Statement", input="text", help="One SELECT.")
    body_condition: BodyCondition | None = body_field("Its first row must hold")

    @property
    def target(self) -> tuple[str, int]:
        """As given."""
        return self.host, self.port

    @property
    def origin(self) -> str:
        """With the encryption, which may not be taken off a stored password."""
        return f"postgres-{self.tls}:{self.host.casefold()}:{self.port}"
