"""Forms validate every post; each error names its field and says how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm

from controlplane import probe_spec
from controlplane.models import Probe
from controlplane.services.errors import Refused

HOLDS = (
    (15, "15 minutes"),
    (30, "30 minutes"),
    (60, "1 hour"),
    (120, "2 hours"),
    (240, "4 hours"),
    (480, "8 hours"),
    (1440, "24 hours"),
)


class SignInForm(AuthenticationForm):
    """Name and password."""

    error_messages = {
        "invalid_login": "This name and password do not match. Check both; capitals matter in the password.",
        "inactive": "This account is switched off. Ask an admin.",
    }


class DeedForm(forms.Form):
    """An operator's deed: why, and a token that makes a second click the same deed."""

    token = forms.UUIDField(error_messages={"required": "Open this form anew.", "invalid": "Open this form anew."})
    reason = forms.CharField(max_length=500, required=False, strip=True)

    def values(self, now: datetime) -> dict[str, Any]:
        """What the service wants to know."""
        return {"token": str(self.cleaned_data["token"]), "reason": self.cleaned_data["reason"]}


class ReasonForm(DeedForm):
    """A deed that must be explained."""

    reason = forms.CharField(
        max_length=500,
        strip=True,
        error_messages={
            "required": "Say why: whoever is on call next reads it.",
            "max_length": "Keep it under 500 characters.",
        },
        widget=forms.Textarea(attrs={"rows": 2, "autocomplete": "off"}),
    )


class HoldForm(ReasonForm):
    """A deed with an end."""

    minutes = forms.TypedChoiceField(
        coerce=int,
        choices=HOLDS,
        initial=60,
        label="For how long",
        error_messages={"required": "Choose how long.", "invalid_choice": "Choose one of the lengths offered."},
    )

    def values(self, now: datetime) -> dict[str, Any]:
        """With the moment at which the override ends."""
        return super().values(now) | {"until": now + timedelta(minutes=self.cleaned_data["minutes"])}


class ProbeForm(forms.Form):
    """How a dependency's recovery is tested; the typed probe itself has the last word on each field."""

    url = forms.CharField(
        label="Address",
        max_length=2000,
        help_text="What is asked, such as https://api.example.com/health. Never an address that changes something.",
    )
    method = forms.ChoiceField(choices=[(one, one) for one in probe_spec.METHODS], initial="GET")
    expected_status = forms.CharField(
        label="Expected status", initial="200-299", max_length=100, help_text="200, or 200-299, 404"
    )
    contains = forms.CharField(
        label="Body contains", required=False, max_length=500, help_text="Some text that only a good answer holds."
    )
    latency_ms = forms.FloatField(
        label="No slower than (ms)",
        required=False,
        min_value=1,
        max_value=60_000,
        help_text="Empty: any speed is good.",
    )
    time_limit_s = forms.FloatField(label="Time limit (s)", initial=5, min_value=0.1, max_value=30)
    operation = forms.CharField(
        max_length=200,
        help_text="The tool, or the part of one, that this request exercises: it closes that operation's outage only.",
    )
    enabled = forms.BooleanField(required=False, initial=True, label="Switched on")

    def spec(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The probe as the service takes it; what this form does not show stays as it was."""
        data = self.cleaned_data
        names = ("url", "method", "expected_status", "latency_ms", "time_limit_s")
        spec = {**stored, **{name: data[name] for name in names}}
        shown = (stored.get("body_condition") or {}).get("kind", probe_spec.CONTAINS) == probe_spec.CONTAINS
        if shown:
            spec["body_condition"] = (
                {"kind": probe_spec.CONTAINS, "value": data["contains"]} if data["contains"] else None
            )
        return spec


def probe_initial(probe: Probe | None, operation: str) -> dict[str, Any]:
    """A stored probe as the form shows it."""
    if probe is None:
        return {"operation": operation}
    condition = probe.spec.get("body_condition") or {}
    contains = condition.get("value", "") if condition.get("kind") == probe_spec.CONTAINS else ""
    return {**probe.spec, "contains": contains, "operation": probe.operation, "enabled": probe.enabled}


_FIELDS = {"until": "minutes", "body_condition": "contains"}


def add_refusal(form: forms.Form, refused: Refused) -> None:
    """Show a service's refusal at the field that it names."""
    field = _FIELDS.get(refused.field or "", refused.field)
    text = f"{refused.message[:1].upper()}{refused.message[1:]}: {refused.mend}."
    form.add_error(field if field in form.fields else None, text)


class QuarantineForm(ReasonForm):
    """Why a key's or worker's evidence is not counted, or is counted again."""
