"""The form of a probe of any kind, drawn from the kind's own fields; secrets are written and never read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import Field
from typing import Any

from django import forms
from recloser.core.places import AskFrom

from controlplane import probe_spec
from controlplane.models import Probe
from controlplane.probe_spec.fields import Spec, Words, fields_of, optional
from controlplane.services import probes

NEW_HEADERS = 2
CONDITIONS = (
    ("", "anything"),
    (probe_spec.CONTAINS, "some text"),
    (probe_spec.JSON_EQUALS, "a value at a JSON path"),
)
SHOWS = (
    "expected_status",
    "header_condition",
    "expected",
    "condition",
    "path",
    "value",
    "certificate_days",
    "latency_ms",
)
"""Fields that say what a good answer shows; the others say what is asked."""
SMALL = ("number", "choice")
LAST = ("operation", "time_limit_s", "enabled", "ask_from", "heartbeat_s")
ASKED_FROM = (
    (AskFrom.CONTROL_PLANE.value, "the control plane"),
    (AskFrom.AGENTS.value, "agents"),
    (AskFrom.BOTH.value, "both"),
)


class ProbeForm(forms.Form):
    """How a dependency's recovery is tested; the typed probe itself has the last word on each field."""

    operation = forms.CharField(
        max_length=200,
        help_text="The tool, or the part of one, that this exercises: it closes that operation's outage only.",
    )
    ask_from = forms.ChoiceField(
        choices=ASKED_FROM,
        initial=AskFrom.CONTROL_PLANE.value,
        label="Asked from",
        required=False,
        help_text="Agent processes ask for what only they can reach: those whose code lists this host in "
        "Client(probe_hosts=[…]). They send plain HTTP GET or HEAD and TCP probes, and never get a secret.",
    )
    heartbeat_s = forms.IntegerField(
        required=False,
        label="Heartbeat in seconds",
        help_text="Ask at this pace while the circuit is closed, too, and warn after two failures. It never opens the "
        "circuit. Empty: only an open circuit is probed.",
    )
    enabled = forms.BooleanField(required=False, initial=True, label="Switched on")

    def __init__(
        self, data: Any, *, kind: type[Spec], stored: Mapping[str, Any], secret_names: list[str], initial: Any
    ) -> None:
        super().__init__(data, initial=initial)
        self.kind, self.stored, self.secret_names = kind, stored, secret_names
        self.kind_name, self.exercises, self.takes_headers = kind.KIND, kind.EXERCISES, kind.SECRETS is None
        for field in fields_of(kind):
            self.fields.update(_inputs(field))

    def clean(self) -> dict[str, Any]:
        """A condition with what it needs."""
        data = super().clean() or {}
        if data.get("condition") and not data.get("value"):
            self.add_error("value", "Say what it must hold.")
        if data.get("condition") == probe_spec.JSON_EQUALS and not data.get("path"):
            self.add_error("path", "Say where in the answer, such as $.ok.")
        for field in fields_of(self.kind):
            try:
                data[field.name] = self._read(field, data)
            except ValueError as error:
                self.add_error(field.name, str(error))
        return data

    def _read(self, field: Field[Any], data: Mapping[str, Any]) -> Any:
        """What the service is given for one field of the kind."""
        words: Words = field.metadata["words"]
        value = data.get(field.name)
        match words.input:
            case "headers":
                return dict(_header_lines(value or ""))
            case "list":
                return [line.strip() for line in (value or "").splitlines() if line.strip()]
            case "json":
                return _strict_json(value or "")
            case "header_condition":
                return _header_condition(value or "")
            case "body_condition":
                return _condition(data)
        return value

    def spec(self) -> dict[str, Any]:
        """The probe as the service takes it; what is left empty stays as it was, or as the kind has it by default."""
        given = {each.name: self.cleaned_data.get(each.name) for each in fields_of(self.kind)}
        told = {name: value for name, value in given.items() if not self._unsaid(name, value)}
        kept = {name: value for name, value in self.stored.items() if name in given and not self._posted(name)}
        return kept | told

    def _posted(self, name: str) -> bool:
        return ("condition" if name == "body_condition" else name) in self.data

    def _unsaid(self, name: str, value: Any) -> bool:
        """An input that was left empty, where the kind has a default of its own."""
        field = next(each for each in fields_of(self.kind) if each.name == name)
        return value is None or (value == "" and field.default != "") or (value == "" and not optional(field))

    def secrets(self) -> dict[str, dict[str, str | None]]:
        """As the service takes them: headers of whatever name, or the values that this kind names."""
        if self.kind.SECRETS is None:
            return {"secret_headers": self._secret_headers()}
        return {"secret_values": dict(self._secret_values(self.kind.SECRETS))}

    def _secret_headers(self) -> dict[str, str | None]:
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

    def _secret_values(self, names: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
        for place, name in enumerate(names):
            value = self.data.get(f"secret_value_{place}")
            keeps = name in self.secret_names and not self.data.get(f"secret_forget_{place}")
            if value or keeps:
                yield name, value or None

    @property
    def secret_rows(self) -> list[dict[str, Any]]:
        """The inputs: a stored one has a name and no value, for none is ever shown."""
        if self.kind.SECRETS is not None:
            named = enumerate(self.kind.SECRETS)
            return [{"place": place, "name": name, "stored": name in self.secret_names} for place, name in named]
        known = [{"place": place, "name": name, "stored": True} for place, name in enumerate(self.secret_names)]
        fresh = range(len(known), len(known) + NEW_HEADERS)
        return known + [
            {
                "place": place,
                "name": self.data.get(f"secret_name_{place}", "") if self.is_bound else "",
                "stored": False,
                "new": True,
            }
            for place in fresh
        ]

    @property
    def asks(self) -> list[list[Any]]:
        """The inputs that say what is asked, small ones side by side."""
        return self._rows(name for name in self.fields if name not in SHOWS and name not in LAST)

    @property
    def shows(self) -> list[list[Any]]:
        """The inputs that say what a good answer shows."""
        return self._rows(name for name in SHOWS if name in self.fields)

    def _rows(self, names: Iterator[str]) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for name in names:
            if _small(self.fields[name]) and rows and _small(rows[-1][0].field):
                rows[-1].append(self[name])
            else:
                rows.append([self[name]])
        return rows


def form_for(data: Any, stored: Probe | None, operation: str, kind: str = "") -> ProbeForm:
    """The form of a dependency's probe, filled with what is stored if that is of this kind."""
    chosen = kind if kind in probe_spec.KINDS else stored.kind if stored else probe_spec.DEFAULT
    if stored is None or stored.kind != chosen:
        initial: dict[str, Any] = {"operation": stored.operation if stored else operation}
        return ProbeForm(data, kind=probe_spec.KINDS[chosen], stored={}, secret_names=[], initial=initial)
    shown = probes.shown(stored)
    names = sorted(shown["secret_headers"] | shown["secret_values"])
    made = probe_spec.KINDS[chosen]
    return ProbeForm(data, kind=made, stored=stored.spec, secret_names=names, initial=_initial(stored))


def _inputs(field: Field[Any]) -> dict[str, forms.Field]:
    """How one field of a kind is asked for."""
    words: Words = field.metadata["words"]
    if words.input == "body_condition":
        return _condition_inputs(words)
    told: dict[str, Any] = {"label": words.label, "help_text": words.help, "required": not optional(field)}
    default = field.default if isinstance(field.default, str | int | float | bool) else None
    if field.metadata["plain"] and isinstance(field.default, tuple):
        default = field.metadata["plain"](field.default)
    told["initial"] = _shown(field, default)
    match words.input:
        case "number":
            return {field.name: forms.FloatField(**told)}
        case "choice":
            return {field.name: forms.ChoiceField(choices=words.choices, **told)}
        case "flag":
            return {field.name: forms.BooleanField(**told)}
        case "text" | "headers" | "list" | "json":
            told["widget"] = forms.Textarea(attrs=_lines(words))
            return {field.name: forms.CharField(max_length=20_000, **told)}
    told["widget"] = forms.TextInput(attrs={"placeholder": words.example, "spellcheck": "false"})
    return {field.name: forms.CharField(max_length=2000, **told)}


def _lines(words: Words) -> dict[str, Any]:
    rows = {"headers": 2, "list": 2, "json": 5}.get(words.input, 3)
    return {"rows": rows, "spellcheck": "false", "placeholder": words.example}


def _condition_inputs(words: Words) -> dict[str, forms.Field]:
    return {
        "condition": forms.ChoiceField(label=words.label, required=False, choices=CONDITIONS),
        "path": forms.CharField(
            label="JSON path",
            required=False,
            max_length=300,
            help_text="Such as $.results[0].ok, for a value at a path.",
        ),
        "value": forms.CharField(
            label="The text or value",
            required=False,
            max_length=500,
            help_text='Text, or for a path a JSON value: true, 3, "ready". A bare word is text.',
        ),
    }


def _small(field: forms.Field) -> bool:
    return isinstance(field, forms.FloatField | forms.ChoiceField)


def _initial(probe: Probe) -> dict[str, Any]:
    shown = {field.name: _shown(field, probe.spec.get(field.name)) for field in fields_of(probe_spec.KINDS[probe.kind])}
    condition = probe.spec.get("body_condition") or {}
    value = condition.get("value", "")
    plain = condition.get("kind") == probe_spec.CONTAINS
    return {
        **{name: value for name, value in shown.items() if value is not None},
        "condition": condition.get("kind", ""),
        "path": condition.get("path", ""),
        "value": value if plain else json.dumps(value) if condition else "",
        "operation": probe.operation,
        "ask_from": probe.ask_from,
        "heartbeat_s": probe.heartbeat_s,
        "enabled": probe.enabled,
    }


def _shown(field: Field[Any], value: Any) -> Any:
    """A stored value as its input has it."""
    words: Words = field.metadata["words"]
    match words.input:
        case "headers":
            return "\n".join(f"{name}: {content}" for name, content in (value or {}).items())
        case "list":
            return "\n".join(value or ())
        case "json":
            return json.dumps(value, indent=1, ensure_ascii=False) if value else ""
        case "header_condition":
            return f"{value['name']}: {value.get('contains', '')}" if value else ""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _header_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip():
            yield name.strip(), value.strip()
        elif line.strip():
            raise ValueError(f"“{line.strip()[:40]}” is no header: write Name: value.")


def _header_condition(text: str) -> dict[str, str] | None:
    name, _, contains = text.partition(":")
    return {"name": name.strip(), "contains": contains.strip()} if name.strip() else None


def _condition(data: Mapping[str, Any]) -> dict[str, Any] | None:
    kind, value = data.get("condition"), data.get("value") or ""
    if not kind:
        return None
    if kind == probe_spec.CONTAINS:
        return {"kind": kind, "value": value}
    return {"kind": kind, "path": data.get("path") or "", "value": _json(value)}


def _strict_json(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"This is no JSON{where}: look for a missing quote, comma or bracket.") from None


def _json(text: str) -> Any:
    """A JSON value; a bare word is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
