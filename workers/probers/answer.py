"""What every kind of probe hands back."""

from dataclasses import dataclass, field
from typing import Any

from recloser.core.probe import Answer, Fault, Ruling, ruling


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
    connected_at: float | None = None
    """On this process' monotonic clock."""

    def condition(self, name: str, *, expected: Any, seen: Any, held: bool) -> None:
        """Note what one condition asked for and met."""
        self.conditions.append({"name": name, "expected": expected, "seen": seen, "held": held})

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
        }
