"""An edit says which version it edits, so that nobody overwrites what they have not seen."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from rest_framework.request import Request
from rest_framework.utils.encoders import JSONEncoder

from controlplane.api.errors import Problem

_TAGS = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,200}"')


def etag(shown: Any) -> str:
    """The name of what a GET shows just now."""
    packed = json.dumps(shown, cls=JSONEncoder, sort_keys=True, separators=(",", ":")).encode()
    return f'"{hashlib.sha256(packed).hexdigest()[:24]}"'


def demand_condition(request: Request) -> str:
    """The If-Match of an edit, which must be there."""
    condition = request.headers.get("If-Match", "").strip()
    if not condition:
        mend = "read it first, and send its ETag as If-Match"
        raise Problem(428, "precondition_required", "this edit does not say what it edits", mend, "If-Match")
    return condition


def demand_current(condition: str, current: str) -> None:
    """The version that an edit speaks of is the one in force."""
    if condition != "*" and current not in _TAGS.findall(condition):
        mend = "read it again, look at what changed, and edit that"
        raise Problem(412, "stale", "it was changed since you read it", mend, "If-Match", {"ETag": current})


def is_unchanged(request: Request, current: str) -> bool:
    """Whether the reader has it already."""
    known = request.headers.get("If-None-Match", "")
    return known.strip() == "*" or current in (tag.removeprefix("W/") for tag in _TAGS.findall(known))
