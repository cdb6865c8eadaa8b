"""What every kind of probe hands back."""

from dataclasses import dataclass, field
from typing import Any

from recloser.core.probe import Answer, Fault, Ruling, ruling

from controlplane.masking import masked
from controlplane.probe_spec.conditions import Met, Seen


class Fell(Exception):
    """There is no answer that conditions could be held against: which fault, and our own words for it."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault, self.detail = fault, detail


class Unmet(Exception):
    """An answer that goes no further: the condition that it fails."""

    def __init__(self, name: str, expected: str, seen: Any) -> None:
        super().__init__(name)
        self.met = Met(name, expected, seen, held=False)


@dataclass
class Findings:
    """One probe's request and answer, in words that may be stored and shown: no secret, no text of the vendor's."""

    asked: dict[str, Any] = field(default_factory=dict)
    status: int | None = None
    first_status: int | None = None
    address: str = ""
    conditions: list[dict[str, Any]] = field(default_factory=list)
    fault: Fault | None = None
    detail: str = ""
    took_ms: float | None = None
    retry_after_s: float | None = None
    certificate_until: float | None = None
    """When the certificate that was met expires, as Unix time."""
    connected_at: float | None = None
    """On this process' monotonic clock."""
    hidden: dict[str, str] = field(default_factory=dict)
    """Values that may be in nothing that is kept."""
    seen: Seen = field(default_factory=Seen)
    """What conditions are held against; it is never kept."""

    def met(self, one: Met, step: str = "") -> None:
        """Note what one condition asked for and met."""
        kept = one._asdict() | {"expected": masked(one.expected, self.hidden)}
        self.conditions.append(kept | ({"step": step} if step else {}))

    def ruling(self) -> Ruling:
        """The core's word on it."""
        held = {each["name"]: bool(each["held"]) for each in self.conditions}
        return ruling(Answer(self.status, held, self.fault))

    def answered(self) -> dict[str, Any]:
        """What is kept of the answer."""
        judged = self.ruling()
        return {
            "status": self.status,
            "first_status": self.first_status,
            "address": self.address,
            "took_ms": self.took_ms,
            "conditions": self.conditions,
            "cause": judged.cause,
            "detail": self.detail,
            "misconfigured": judged.misconfigured,
            "retry_after_s": self.retry_after_s,
            "certificate_until": self.certificate_until,
        }
