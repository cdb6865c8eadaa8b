"""An HTTP probe: one request, its redirects by rule, and what the answer must show."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from controlplane.probe_spec.conditions import (
    BodyCondition,
    HeaderCondition,
    Ranges,
    body_field,
    certificate_field,
    header_field,
    status_field,
)
from controlplane.probe_spec.fields import WebSpec, choice, plain_headers, refuse, said, text, web_address, whole

METHODS = ("GET", "HEAD", "POST", "OPTIONS")
REDIRECTS = ("never", "same_host", "any")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSpec(WebSpec):
    """One HTTP request and the conditions on its answer."""

    KIND: ClassVar[str] = "http"
    LABEL: ClassVar[str] = "HTTP"
    EXERCISES: ClassVar[str] = "One request. Never an address that changes something."

    url: str = said(
        web_address,
        label="Address",
        example="https://api.example.com/health",
        help="What is asked, such as https://api.example.com/health. Never an address that changes something.",
    )
    method: str = said(
        choice(*METHODS, message="a probe never changes anything"),
        "GET",
        label="Method",
        input="choice",
        choices=tuple((each, each) for each in METHODS),
    )
    redirects: str = said(
        choice(*REDIRECTS, message="no such rule"),
        "never",
        label="Redirects",
        input="choice",
        choices=(("never", "are not followed"), ("same_host", "on the same host"), ("any", "anywhere")),
    )
    max_redirects: int = said(whole(0, 10), 3, label="At most so many redirects", input="number")
    headers: Mapping[str, str] = said(
        plain_headers,
        {},
        label="Headers",
        input="headers",
        example="Accept: application/json",
        help="One a line. Nothing secret: these are shown to everyone.",
    )
    body: str = said(text(longest=20_000), "", label="Body", input="text", help="Of a POST only.")
    expected_status: Ranges = status_field()
    header_condition: HeaderCondition | None = header_field()
    body_condition: BodyCondition | None = body_field()
    certificate_days: float | None = certificate_field()

    def check(self) -> None:
        """Only a POST carries a body."""
        if self.body and self.method != "POST":
            refuse("body", f"a {self.method} request carries none", "choose POST, or leave the body empty")
