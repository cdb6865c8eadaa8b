"""Every address that the dashboard answers, read off its URL conf: who adds a page need not name it for the tests."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.urls import URLPattern, reverse
from recloser.core.types import SideEffectClass

from dashboard import urls
from dashboard.views.actions import DEEDS
from dashboard.views.policy import CIRCUIT, RUN

POSTS = frozenset({"sign-out", "decide", "decide-tool"})
PARTS = frozenset({"heard"})
"""Never a whole page: a sheet asks for it."""
EACH: Mapping[str, tuple[str, ...]] = {
    "action": tuple(DEEDS),
    "layer": ("environment", *(each.value for each in SideEffectClass)),
    "part": (CIRCUIT, RUN),
}
"""Arguments whose every value is a page of its own."""


def pages(stood: Mapping[str, Any]) -> dict[str, str]:
    """Whole pages by name; `stood` holds what each argument of an address stands for."""
    return {name: path for name, path in addresses(stood).items() if name not in PARTS and ".csv" not in path}


def addresses(stood: Mapping[str, Any]) -> dict[str, str]:
    """All that answers GET, by name: pages, parts and files."""
    found = {}
    for pattern in urls.urlpatterns:
        if pattern.name not in POSTS:
            found |= dict(_of(pattern, stood))
    return found


def _of(pattern: URLPattern, stood: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    route = str(pattern.pattern)
    several = [name for name in EACH if f":{name}>" in route]
    for values in itertools.product(*(EACH[name] for name in several)):
        given = dict(zip(several, values, strict=True))
        arguments = {name: given.get(name) or stood[_key(route, name)] for name in pattern.pattern.converters}
        yield "-".join((str(pattern.name), *values)), reverse(f"dashboard:{pattern.name}", kwargs=arguments)


def _key(route: str, argument: str) -> str:
    """A `pk` is one of what the address lists before it: settings/people/<pk>/ of `people`."""
    if argument != "pk":
        return argument
    return re.findall(r"(\w+)/(?:<slug:environment>/)?<int:pk>", route)[0]
