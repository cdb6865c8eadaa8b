"""One recorded step as a real HTTP call."""

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

from demo.cast import DEPENDENCY_OF

LIMIT_S = 5.0


class Refused(Exception):
    """The vendor answered with an error status; the SDK reads `status` from it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the vendor answered {status}")
        self.status = status


def ask(vendor: str, step: dict[str, Any]) -> Any:
    """Call the tool of a recorded step; the vendor answers as recorded, unless it is down."""
    query = urlencode({"outcome": step["outcome"], "result": step["result_hash"] or ""})
    url = f"{vendor}/{DEPENDENCY_OF[step['tool']]}/{step['tool']}?{query}"
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310 (the demo's own vendor)
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise Refused(error.code) from None
