"""Forms validate every post; each error names its field and says how to mend it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm

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


class CausesForm(DeedForm):
    """Alerts that are no outage, by their numbers: those that the person saw, and no others."""

    causes = forms.RegexField(
        r"^\d{1,18}(,\d{1,18}){0,199}$",
        max_length=4000,
        widget=forms.HiddenInput,
        error_messages={"required": "Choose an alert on the Alerts page.", "invalid": "Open this form anew."},
    )

    def clean_causes(self) -> list[int]:
        """As numbers."""
        return [int(part) for part in self.cleaned_data["causes"].split(",")]


class BareForm(DeedForm):
    """A deed that needs no words."""

    reason = None  # type: ignore[assignment]


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


class NoteForm(ReasonForm):
    """Something that the next one should know."""

    reason = forms.CharField(
        label="Note",
        max_length=500,
        strip=True,
        error_messages={"required": "Write something.", "max_length": "Keep it under 500 characters."},
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off"}),
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


_FIELDS = {"until": "minutes", "body_condition": "value"}


def add_refusal(form: forms.Form, refused: Refused) -> None:
    """Show a service's refusal at the field that it names."""
    named = (refused.field or "").split("[")[0].split(".")[0]
    field = _FIELDS.get(named, named)
    place = f"{refused.field}: " if named != refused.field and refused.field else ""
    text = f"{place}{refused.message[:1].upper()}{refused.message[1:]}: {refused.mend}."
    form.add_error(field if field in form.fields else None, text)
