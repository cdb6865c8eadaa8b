"""A probe of a model provider: its list of models, or where allowed a completion of one token."""

from dataclasses import dataclass
from typing import ClassVar

from controlplane.probe_spec.conditions import Ranges, certificate_field, listed_field, status_field
from controlplane.probe_spec.fields import WebSpec, choice, number, refuse, said, text, web_address

PROVIDERS = ("openai", "anthropic", "gemini", "compatible")
MODELS, COMPLETION = "models", "completion"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSpec(WebSpec):
    """A provider, what is asked of it, and what that may cost."""

    KIND: ClassVar[str] = "llm"
    LABEL: ClassVar[str] = "Model provider"
    EXERCISES: ClassVar[str] = (
        "The list of models, which costs nothing and proves no completion; or one token, paid for."
    )
    SECRETS: ClassVar[tuple[str, ...] | None] = ("api_key",)

    provider: str = said(
        choice(*PROVIDERS, message="no such provider"),
        "openai",
        label="Provider",
        input="choice",
        choices=(
            ("openai", "OpenAI"),
            ("anthropic", "Anthropic"),
            ("gemini", "Google Gemini"),
            ("compatible", "compatible with OpenAI"),
        ),
    )
    url: str = said(
        web_address,
        label="Base address",
        example="https://api.openai.com/v1",
        help="With the version, such as https://api.openai.com/v1 or https://api.anthropic.com/v1.",
    )
    ask: str = said(
        choice(MODELS, COMPLETION),
        MODELS,
        label="What is asked",
        input="choice",
        choices=((MODELS, "its list of models"), (COMPLETION, "one token, paid for")),
    )
    model: str = said(text(longest=200), "", label="Model", help="The one that answers with a token.")
    expected: tuple[str, ...] = listed_field("Models that must be listed", "One a line. Empty: any list will do.")
    expected_status: Ranges = status_field()
    cost_per_probe_usd: float = said(
        number(0, 1),
        0.0,
        label="A token costs at most ($)",
        input="number",
        help="With the prompt's; you know your rate.",
    )
    daily_cap_usd: float = said(
        number(0, 100),
        0.0,
        label="At most a day ($)",
        input="number",
        help="Beyond it nothing is asked until midnight UTC.",
    )
    certificate_days: float | None = certificate_field()

    def check(self) -> None:
        """A completion has a model, a price and a cap; a listing has none of them."""
        if self.ask == MODELS:
            return
        if not self.model:
            refuse("model", "a completion is asked of a model", "name the cheapest that your agents use")
        if self.expected:
            refuse("expected", "a completion lists no models", "leave this empty, or ask for the list of models")
        if self.cost_per_probe_usd <= 0:
            refuse("cost_per_probe_usd", "a completion costs something", "say how much at most, such as 0.0001")
        if self.daily_cap_usd < self.cost_per_probe_usd:
            refuse("daily_cap_usd", "this does not pay for one probe", "give a day's cap above the cost of one")

    @property
    def cost_usd(self) -> float:
        """Of a completion."""
        return self.cost_per_probe_usd if self.ask == COMPLETION else 0.0
