"""Names in addresses: whatever an agent calls a dependency or tool, its address has one unambiguous segment."""

import re
from urllib.parse import quote, unquote

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class NameConverter:
    """A path converter: percent-encoding with ~ for %, so that slashes, dots and spaces survive every proxy.

    Plain percent-encoding is understood too, save for what proxies decode on the way: / and ~ need the tilde.
    """

    regex = r"[^/]+"

    def to_python(self, value: str) -> str:
        """The name itself; ValueError, so no such address, where the bytes are no text or no name."""
        name = unquote(value.replace("%", "~25").replace("~", "%"), errors="strict")
        if _CONTROL.search(name):
            raise ValueError("no name has control characters")
        return name

    def to_url(self, value: str) -> str:
        """The segment; one that is all dots would be taken for a folder."""
        segment = quote(value, safe="").replace("~", "%7E").replace("%", "~")
        return segment if segment.strip(".") else segment.replace(".", "~2E")
