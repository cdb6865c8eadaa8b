"""A client made from the served schema: a method an operation; every answer is held against what the schema says of it.

It exists for the tests alone: a request that the schema does not know cannot be made by mistake, and an answer that
the schema does not describe fails the test that got it.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.test import Client
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

PASSED_ON = {"path", "query", "header"}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    data: Any
    headers: Any

    @property
    def error(self) -> dict[str, Any]:
        """The error's four parts."""
        return self.data["error"]

    @property
    def etag(self) -> str:
        return self.headers["ETag"]


@dataclass(frozen=True)
class Operation:
    """One operation of the schema, ready to be called."""

    name: str
    method: str
    path: str
    said: dict[str, Any]

    def request(self, given: dict[str, Any]) -> tuple[str, dict[str, str]]:
        """Address and headers for these arguments; an argument that the schema does not know is a mistake."""
        known = {one["name"]: one["in"] for one in self.said.get("parameters", [])}
        spelled = {python(name): name for name in known}
        if unknown := set(given) - set(spelled):
            raise TypeError(f"{self.name} takes no {', '.join(sorted(unknown))}; it takes {', '.join(sorted(spelled))}")
        values = {spelled[name]: value for name, value in given.items()}
        path = self.path
        for name, place in known.items():
            if place == "path":
                path = path.replace("{" + name + "}", segment(str(values[name])))
        query = {name: value for name, value in values.items() if known[name] == "query"}
        headers = {name: value for name, value in values.items() if known[name] == "header"}
        return path + (f"?{urlencode(query)}" if query else ""), headers


def python(name: str) -> str:
    """`If-Match` as an argument."""
    return name.lower().replace("-", "_")


def segment(name: str) -> str:
    """A name in an address, as docs/api.md says: percent, and a tilde where proxies would decode."""
    return quote(name, safe="").replace("~", "~7E").replace("%2F", "~2F")


class Api:
    """All operations; `bearer` is a personal token, without one the Django client's session speaks."""

    def __init__(self, document: dict[str, Any], client: Client, bearer: str = "") -> None:
        self.document, self.client, self.bearer = document, client, bearer
        self.operations = {
            said["operationId"]: Operation(said["operationId"], method, path, said)
            for path, methods in document["paths"].items()
            for method, said in methods.items()
        }

    def __getattr__(self, name: str) -> Any:
        if name not in self.operations:
            raise AttributeError(f"the schema has no operation {name}")
        return functools.partial(self._call, self.operations[name])

    def _call(self, operation: Operation, body: Any = None, **given: Any) -> Answer:
        path, headers = operation.request(given)
        if body is not None and "requestBody" not in operation.said:
            raise TypeError(f"{operation.name} takes no body")
        return self.send(operation.method, path, body, headers, operation)

    def send(
        self, method: str, path: str, body: Any = None, headers: Any = None, operation: Operation | None = None
    ) -> Answer:
        """Any request at all; a body of bytes goes as it is."""
        headers = {**({"Authorization": f"Bearer {self.bearer}"} if self.bearer else {}), **(headers or {})}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        kind = headers.pop("Content-Type", "application/json")
        got = self.client.generic(method.upper(), path, data, kind, headers=headers)
        answer = Answer(got.status_code, got.json() if got.content else None, got.headers)
        if operation is not None:
            self._check(operation, answer)
        if answer.status >= 400:
            assert set(answer.data) == {"error"}
            assert set(answer.error) == {"code", "field", "message", "mend"}
            assert answer.error["message"] and answer.error["mend"], answer.error
        return answer

    def _check(self, operation: Operation, answer: Answer) -> None:
        promised = operation.said["responses"]
        if answer.status == 304:
            return
        described = promised.get(str(answer.status))
        if described is None:
            assert answer.status >= 400, f"{operation.name} promised no {answer.status}"
            described = promised["default"]
        content = described.get("content")
        if content is None:
            assert answer.data is None
            return
        self._validator(json.dumps(content["application/json"]["schema"])).validate(answer.data)

    @functools.cache  # noqa: B019 (one a test session)
    def _validator(self, schema: str) -> Draft202012Validator:
        registry = Registry().with_resource("urn:api", Resource(self.document, DRAFT202012))
        absolute = json.loads(schema.replace('"#/', '"urn:api#/'))
        return Draft202012Validator(absolute, registry=registry)
