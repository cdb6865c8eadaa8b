"""What the decoder says of a body that does not fit, as a message and the field it is about."""

from __future__ import annotations

import re

_WHERE = re.compile(r" - at (?:`key` in )?`(?:key in )?\$\.?(.*)`\Z")
_NAMED = re.compile(r"(?:missing required|unknown|in) field `(.*)`\Z")


def misfit(text: str) -> tuple[str, str | None]:
    """What is wrong, and where: `observations[3].counts.ok`; None where it is about the whole body."""
    where = _WHERE.search(text)
    message = text[: where.start()] if where else text
    path = where.group(1) if where else ""
    if named := _NAMED.search(message):
        path = f"{path}.{named.group(1)}".lstrip(".")
    return re.sub(r" matching regex .*", " without control characters", message), path or None
