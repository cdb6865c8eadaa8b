"""The form of a probe: the request, what its answer must show, and headers whose values are written and never read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms

from controlplane import probe_spec
from controlplane.models import Probe
from controlplane.services import probes

NEW_HEADERS = 2
CONDITIONS = (
    ("", "anything"),
    (probe_spec.CONTAINS, "some text"),
    (probe_spec.JSON_EQUALS, "a value at a JSON path"),
)


class ProbeForm(forms.Form):
    """How a dependency's recovery is tested; the typed probe itself has the last word on each field."""

    url = forms.CharField(
        label="Address",
        max_length=2000,
        help_text="What is asked, such as https://api.example.com/health. Never an address that changes something.",
    )
    method = forms.ChoiceField(choices=[(one, one) for one in probe_spec.METHODS], initial="GET")
    headers = forms.CharField(
        required=False,
        max_length=8000,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "placeholder": "Accept: application/json"}),
        help_text="One a line. Nothing secret: these are shown to everyone.",
    )
    body = forms.CharField(
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="Of a POST only.",
    )
    expected_status = forms.CharField(
        label="Expected status", initial="200-299", max_length=100, help_text="200, or 200-299, 404"
    )
    condition = forms.ChoiceField(label="The body must hold", required=False, choices=CONDITIONS)
    path = forms.CharField(
        label="JSON path", required=False, max_length=300, help_text="Such as $.results[0].ok, for a value at a path."
    )
    value = forms.CharField(
        label="The text or value",
        required=False,
        max_length=500,
        help_text='Text, or for a path a JSON value: true, 3, "ready". A bare word is text.',
    )
    latency_ms = forms.FloatField(
        label="No slower than (ms)",
        required=False,
        min_value=1,
        max_value=60_000,
        help_text="Empty: any speed is good.",
    )
    time_limit_s = forms.FloatField(label="Time limit (s)", initial=5, min_value=0.1, max_value=30)
    redirects = forms.ChoiceField(
        required=False,
        choices=[("never", "are not followed"), ("same_host", "on the same host"), ("any", "anywhere")],
        initial="never",
    )
    operation = forms.CharField(
        max_length=200,
        help_text="The tool, or the part of one, that this request exercises: it closes that operation's outage only.",
    )
    enabled = forms.BooleanField(required=False, initial=True, label="Switched on")

    def __init__(self, data: Any, *, stored: Mapping[str, Any], secret_names: list[str], initial: Any) -> None:
        super().__init__(data, initial=initial)
        self.stored, self.secret_names = stored, secret_names

    def clean(self) -> dict[str, Any]:
        """Headers as names and values; a condition with what it needs."""
        data = super().clean() or {}
        data["headers"] = dict(self._header_lines(data.get("headers", "")))
        if data.get("condition") and not data.get("value"):
            self.add_error("value", "Say what the body must hold.")
        if data.get("condition") == probe_spec.JSON_EQUALS and not data.get("path"):
            self.add_error("path", "Say where in the answer, such as $.ok.")
        return data

    def _header_lines(self, text: str) -> Iterator[tuple[str, str]]:
        for line in text.splitlines():
            name, colon, value = line.partition(":")
            if colon and name.strip():
                yield name.strip(), value.strip()
            elif line.strip():
                self.add_error("headers", f"“{line.strip()[:40]}” is no header: write Name: value.")

    def spec(self) -> dict[str, Any]:
        """The probe as the service takes it; what this form does not show stays as it was."""
        data = self.cleaned_data
        names = ("url", "method", "headers", "body", "expected_status", "latency_ms", "time_limit_s")
        spec = {**self.stored, **{name: data[name] for name in names}, "body_condition": self._condition()}
        return spec | ({"redirects": data["redirects"]} if data["redirects"] else {})

    def _condition(self) -> dict[str, Any] | None:
        kind, value = self.cleaned_data["condition"], self.cleaned_data["value"]
        if not kind:
            return None
        if kind == probe_spec.CONTAINS:
            return {"kind": kind, "value": value}
        return {"kind": kind, "path": self.cleaned_data["path"], "value": _json(value)}

    def secret_headers(self) -> dict[str, str | None]:
        """Each stored one kept, changed or left out; and new ones. Empty keeps what is stored."""
        found: dict[str, str | None] = {}
        for place, name in enumerate(self.secret_names):
            if not self.data.get(f"secret_forget_{place}"):
                found[name] = self.data.get(f"secret_value_{place}") or None
        for place in range(len(self.secret_names), len(self.secret_names) + NEW_HEADERS):
            name, value = (self.data.get(f"secret_{part}_{place}", "").strip() for part in ("name", "value"))
            if name or value:
                found[name] = value
        return found

    @property
    def secret_rows(self) -> list[dict[str, Any]]:
        """The inputs: a stored one has a name and no value, for none is ever shown."""
        known = [{"place": place, "name": name, "stored": True} for place, name in enumerate(self.secret_names)]
        fresh = range(len(known), len(known) + NEW_HEADERS)
        return known + [
            {
                "place": place,
                "name": self.data.get(f"secret_name_{place}", "") if self.is_bound else "",
                "stored": False,
            }
            for place in fresh
        ]


def form_for(data: Any, stored: Probe | None, operation: str) -> ProbeForm:
    """The form of a dependency's probe, filled with what is stored."""
    if stored is None:
        return ProbeForm(data, stored={}, secret_names=[], initial={"operation": operation})
    names = sorted(probes.shown(stored)["secret_headers"])
    return ProbeForm(data, stored=stored.spec, secret_names=names, initial=_initial(stored))


def _initial(probe: Probe) -> dict[str, Any]:
    condition = probe.spec.get("body_condition") or {}
    value = condition.get("value", "")
    lines = [f"{name}: {value}" for name, value in (probe.spec.get("headers") or {}).items()]
    return {
        **probe.spec,
        "headers": "\n".join(lines),
        "condition": condition.get("kind", ""),
        "path": condition.get("path", ""),
        "value": value if condition.get("kind") == probe_spec.CONTAINS else json.dumps(value) if condition else "",
        "operation": probe.operation,
        "enabled": probe.enabled,
    }


def _json(text: str) -> Any:
    """A JSON value; a bare word is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
