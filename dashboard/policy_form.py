"""The policy editor's form, read off the schema: text in, typed values out, every error at its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from recloser.core.policy import Field, Kind, Level, fields_for, plain, validate

from dashboard import words

OFF = "off"
LONG_TEXT = 200

TOOL_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Without this tool": ("degraded_behaviour", "fallback_tool", "model_text", "user_text"),
    "Failures in a run": (
        "consecutive_failures", "consecutive_failures_action", "consecutive_failures_delivery", "short_run_steps",
        "short_run_consecutive_failures", "dependency_consecutive_failures", "never_open",
    ),
    "Rejected arguments": (
        "semantic_failures", "semantic_failures_action", "semantic_remove_after", "semantic_failures_delivery",
    ),
    "The same call again": (
        "identical_calls", "identical_calls_action", "identical_calls_delivery", "identical_calls_exempt",
        "ignored_args", "casefold_args", "repeat_at_once", "retry_ambiguous",
    ),
}  # fmt: skip
CIRCUIT_GROUPS: Mapping[str, tuple[str, ...]] = {
    "When it opens": (
        "delivery", "failure_rate", "min_calls", "window_s", "consecutive_failures", "thin_sample_streak",
        "min_workers", "settle_s",
    ),
    "Slow calls": ("slow_call_rate", "slow_call_ms", "slow_call_rate_delivery"),
    "How it is tested": (
        "cooldown_s", "cooldown_max_s", "backoff", "probe_successes", "probe_timeout_s", "permits",
        "lockout_after_s",
    ),
}  # fmt: skip
REST = "Everything else"


class PolicyForm(forms.Form):
    """One input a field; an empty one leaves the value to the layers above."""

    reason = forms.CharField(
        max_length=500,
        strip=True,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Say why it changes: whoever reads the history wants to know."},
    )

    def __init__(self, level: Level, data: Any = None, *, own: Mapping[str, Any]) -> None:
        self.level, self.rows = level, fields_for(level)
        initial = {name: text_of(row, own[name]) for name, row in self.rows.items() if name in own}
        super().__init__(data, initial=initial)
        for name, row in self.rows.items():
            self.fields[name] = _input(row)
        self.order_fields([*self.rows, "reason"])

    def clean(self) -> dict[str, Any]:
        """Every value as the core types it; what the core refuses is told at its field."""
        super().clean()
        self.values = dict(self._given())
        for error in validate(self.values, self.level):
            text = f"{words.sentence(error.message)}: {error.mend}."
            self.add_error(error.field if error.field in self.fields else None, text)
        return self.cleaned_data

    def _given(self) -> Iterator[tuple[str, Any]]:
        for name, row in self.rows.items():
            text = str(self.cleaned_data.get(name, "")).strip()
            if text:
                yield name, value_of(row, text)


def _input(row: Field) -> forms.CharField:
    return forms.CharField(
        required=False,
        label=words.sentence(row.name.removesuffix("_s").removesuffix("_ms").replace("_", " ")),
        help_text=row.help,
        widget=_widget(row),
    )


def _widget(row: Field) -> forms.Widget:
    plain_text = {"autocomplete": "off", "spellcheck": "false"}
    match row.kind:
        case Kind.FLAG:
            return forms.Select(choices=[("", "as inherited"), ("yes", "yes"), ("no", "no")])
        case Kind.CHOICE:
            shown = [(one, one.replace("_", " ")) for one in row.choices]
            return forms.Select(choices=[("", "as inherited"), *shown])
        case Kind.OUTCOMES:
            return forms.Textarea(attrs={"rows": 3, **plain_text})
        case Kind.TEXT if (row.high or 0) > LONG_TEXT:
            return forms.Textarea(attrs={"rows": 2})
        case Kind.NUMBER | Kind.INTEGER:
            return forms.TextInput(attrs={"inputmode": "decimal", **plain_text})
    return forms.TextInput(attrs=plain_text)


def value_of(row: Field, text: str) -> Any:
    """What a text means; one that means nothing stays as it is, for the core to refuse."""
    if row.nullable and text.casefold() == OFF:
        return None
    match row.kind:
        case Kind.NUMBER | Kind.INTEGER:
            return _number(row, text)
        case Kind.FLAG:
            return {"yes": True, "no": False}.get(text, text)
        case Kind.NAMES:
            return _parts(text)
        case Kind.SHARES:
            return [_number(row, part) for part in _parts(text)]
        case Kind.OUTCOMES:
            return dict(_rule(line) for line in text.splitlines() if line.strip())
    return text


def _number(row: Field, text: str) -> Any:
    bare = text.removesuffix("%").strip()
    try:
        value = float(bare)
    except ValueError:
        return text
    value = value / 100 if bare != text else value
    return int(value) if row.kind is Kind.INTEGER and value == int(value) else value


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _rule(line: str) -> tuple[str, Any]:
    """`402 = rate_limited 3600`: an answer, its outcome, and the wait it implies."""
    answer, _, rest = line.partition("=")
    outcome, _, wait = rest.strip().partition(" ")
    if not wait.strip():
        return answer.strip(), outcome
    try:
        return answer.strip(), {"outcome": outcome, "wait_s": float(wait)}
    except ValueError:
        return answer.strip(), {"outcome": outcome, "wait_s": wait.strip()}


def text_of(row: Field, value: Any) -> str:
    """The inverse: a stored value as one would type it."""
    if value is None:
        return OFF
    match row.kind:
        case Kind.FLAG:
            return "yes" if value else "no"
        case Kind.NUMBER if row.unit == "share":
            return f"{value * 100:g}%"
        case Kind.NUMBER | Kind.INTEGER:
            return f"{value:g}" if isinstance(value, float) else str(value)
        case Kind.NAMES:
            return ", ".join(str(one) for one in value)
        case Kind.SHARES:
            return ", ".join(f"{one * 100:g}%" for one in value)
        case Kind.OUTCOMES:
            return "\n".join(_line(answer, rule) for answer, rule in value.items())
    return str(value)


def _line(answer: str, rule: Any) -> str:
    entry = rule if isinstance(rule, Mapping) else {"outcome": rule}
    wait = entry.get("wait_s")
    return f"{answer} = {entry.get('outcome')}" + (f" {wait:g}" if isinstance(wait, int | float) else "")


@dataclass(frozen=True, slots=True)
class Row:
    """One field in the editor: its input, the value in force with its origin, and what holds without an own value."""

    field: forms.BoundField
    name: str
    unit: str
    in_force: str
    origin: str
    inherited: str
    own: bool
    guard: str = ""
    """`alters` or `loosens`, where doing so needs a second person."""


def rows(
    form: PolicyForm, resolved: Any, inherited: Any, own: Mapping[str, Any], guarded: Mapping[str, str]
) -> list[tuple[str, list[Row]]]:
    """The fields in groups, those that people change first."""
    groups = CIRCUIT_GROUPS if form.level is Level.CIRCUIT else TOOL_GROUPS
    named = {name for names in groups.values() for name in names}
    rest = tuple(name for name in form.rows if name not in named)
    return [
        (title, [_row(form, name, resolved, inherited, own, guarded) for name in names])
        for title, names in {**groups, REST: rest}.items()
    ]


def _row(
    form: PolicyForm, name: str, resolved: Any, inherited: Any, own: Mapping[str, Any], guarded: Mapping[str, str]
) -> Row:
    row = form.rows[name]
    return Row(
        field=form[name],
        name=name,
        unit="" if row.unit in ("share", "money", "tokens", "times") else row.unit,
        in_force=shown(row, getattr(resolved.policy, name)),
        origin=resolved.origins[name].value,
        inherited=shown(row, getattr(inherited.policy, name)),
        own=name in own,
        guard=guarded.get(name, ""),
    )


def shown(row: Field, value: Any) -> str:
    """A typed value as a page shows it."""
    text = text_of(row, plain(row, value)).replace("\n", "; ").replace("%", "\u00a0%")
    unit = f" {row.unit}" if row.unit in ("s", "ms") and text != OFF else ""
    return f"{text}{unit}" if text else "none"
