"""A probe of several requests to one host: what one answer shows the next may use; a clean-up always runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from controlplane.probe_spec.conditions import (
    BodyCondition,
    HeaderCondition,
    Ranges,
    body_field,
    certificate_field,
    header_field,
    is_path,
    status_field,
)
from controlplane.probe_spec.fields import (
    WebSpec,
    choice,
    plain_headers,
    read_as,
    read_text,
    refuse,
    said,
    text,
    to_plain,
    web_address,
)
from controlplane.probe_spec.http import METHODS

MOST = 8
HEADER = "header:"
PLACE = re.compile(r"\{\{\s*(\w{1,40})\s*\}\}")

_NAME = re.compile(r"[A-Za-z]\w{0,39}")


def _path(value: Any, where: str) -> str:
    path = read_text(value, where, 2000, 1)
    if not path.startswith("/") or path.startswith("//") or "\\" in path or any(ord(each) <= 32 for each in path):
        refuse(where, "this is no path", "begin with one slash, without host: every step asks the probe's own address")
    return path


def _captures(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > 10:
        refuse(where, "these are no captured values", 'give names with places, such as {"id": "$.session.id"}')
    for name, place in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            refuse(where, "this name cannot be used", "use letters, digits and underscores")
        header = isinstance(place, str) and place.startswith(HEADER) and len(place) > len(HEADER)
        if not header and not is_path(place):
            refuse(where, f"{name} has no place", "give a JSON path such as $.session.id, or header:Location")
    return dict(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request of several."""

    name: str = said(text(1, 60), label="Name")
    method: str = said(choice(*METHODS, "DELETE", message="a probe never changes anything"), "GET", label="Method")
    path: str = said(_path, label="Path", example="/session")
    headers: Mapping[str, str] = said(plain_headers, {}, label="Headers")
    body: str = said(text(longest=20_000), "", label="Body")
    expected_status: Ranges = status_field()
    header_condition: HeaderCondition | None = header_field()
    body_condition: BodyCondition | None = body_field()
    capture: Mapping[str, str] = said(_captures, {}, label="Captured values")

    def check(self) -> None:
        """Only a POST carries a body."""
        if self.body and self.method != "POST":
            refuse("body", f"a {self.method} request carries none", "choose POST, or leave the body out")

    @property
    def uses(self) -> set[str]:
        """The captured values that it is written with."""
        return set(PLACE.findall(" ".join([self.path, self.body, *self.headers.values()])))


def _step(value: Any, where: str) -> Step:
    if not isinstance(value, Mapping):
        refuse(where, "this is no step", "give an object with name and path")
    step: Step = read_as(Step, value, f"{where}.")
    return step


def _steps(value: Any, where: str) -> tuple[Step, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST:
        refuse(where, "these are no steps", f"give 1 to {MOST} of them, each with name and path")
    return tuple(_step(each, f"{where}[{place}]") for place, each in enumerate(value))


def _plain_steps(value: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [to_plain(each) for each in value]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsSpec(WebSpec):
    """Requests in a row to one host, each with its conditions; the first that fails ends them."""

    KIND: ClassVar[str] = "steps"
    LABEL: ClassVar[str] = "Several steps"
    EXERCISES: ClassVar[str] = "Requests in a row to one host. The clean-up is sent whatever became of them."

    url: str = said(
        web_address,
        label="Address",
        example="https://api.example.com",
        help="Scheme and host: every step asks this host, and secrets go to no other.",
    )
    steps: tuple[Step, ...] = said(
        _steps,
        label="Steps",
        input="json",
        plain=_plain_steps,
        example='[{"name": "sign in", "path": "/session", "method": "POST", "capture": {"id": "$.id"}},\n'
        ' {"name": "search", "path": "/search?session={{id}}"}]',
        help="A JSON list. What a step captures, later ones use as {{name}}. No redirect is followed.",
    )
    cleanup: Step | None = said(
        _step,
        None,
        label="Clean-up",
        input="json",
        plain=to_plain,
        example='{"name": "sign out", "method": "DELETE", "path": "/session/{{id}}"}',
        help="One step, sent whatever happened, if the values it needs were captured. It may be a DELETE.",
    )
    certificate_days: float | None = certificate_field()

    def check(self) -> None:
        """The address is a host alone; values are captured before they are used; only the clean-up removes."""
        if self.url.split("//", 1)[1].rstrip("/").count("/") or "?" in self.url or "#" in self.url:
            refuse("url", "it has a path of its own", "give scheme and host alone; each step has its path")
        known: set[str] = set()
        for place, step in enumerate(self.steps):
            if step.method == "DELETE":
                refuse(f"steps[{place}].method", "a probe never changes anything", "only the clean-up may be a DELETE")
            _demand(step, known, f"steps[{place}]")
            known |= step.capture.keys()
        if self.cleanup is not None:
            _demand(self.cleanup, known, "cleanup")


def _demand(step: Step, known: set[str], where: str) -> None:
    if missing := sorted(step.uses - known):
        refuse(f"{where}.path", f"nothing has captured {missing[0]} before it", "let an earlier step capture it")
