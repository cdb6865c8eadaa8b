"""Names in addresses: whatever an agent calls a dependency, its page has one unambiguous segment."""

from urllib.parse import quote, unquote


class NameConverter:
    """A path converter: percent-encoding with ~ for %, so that slashes, dots and spaces survive every proxy."""

    regex = r"[^/]+"

    def to_python(self, value: str) -> str:
        """The name itself; ValueError, so no such address, where the bytes are no text."""
        return unquote(value.replace("%", "~25").replace("~", "%"), errors="strict")

    def to_url(self, value: str) -> str:
        """The segment; one that is all dots would be taken for a folder."""
        segment = quote(value, safe="").replace("~", "%7E").replace("%", "~")
        return segment if segment.strip(".") else segment.replace(".", "~2E")
