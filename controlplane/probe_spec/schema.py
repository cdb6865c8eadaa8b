"""The kinds of probes as JSON Schema, for the API's own description and for the documentation."""

from typing import Any

from controlplane.probe_spec import KINDS
from controlplane.probe_spec.fields import Spec, Words, fields_of, optional

_TYPES: dict[str, dict[str, Any]] = {
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    "header_condition": {"type": "object", "additionalProperties": {}},
    "body_condition": {"type": "object", "additionalProperties": {}},
    "json": {},
}


def of_kind(kind: type[Spec]) -> dict[str, Any]:
    """One kind: each field's type, and what it is for."""
    known = fields_of(kind)
    return {
        "title": f"{kind.KIND} probe",
        "description": kind.EXERCISES,
        "type": "object",
        "properties": {each.name: _of_field(each) for each in known},
        "required": [each.name for each in known if not optional(each)],
        "additionalProperties": False,
    }


def of_all() -> dict[str, Any]:
    """Any kind; which of them is said beside it."""
    return {"anyOf": [of_kind(kind) for kind in KINDS.values()]}


def _of_field(field: Any) -> dict[str, Any]:
    words: Words = field.metadata["words"]
    shape = dict(_TYPES.get(words.input, {"type": "string"}))
    if words.choices:
        shape["enum"] = [value for value, _ in words.choices]
    if field.default is None and "type" in shape:
        shape["type"] = [shape["type"], "null"]
    told = ": ".join(part for part in (words.label, words.help) if part)
    return shape | {"description": told}
