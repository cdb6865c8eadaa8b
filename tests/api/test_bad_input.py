"""Bad input: a clear error in the one shape, nothing lost, nothing half-done."""

from __future__ import annotations

import gzip
import json

import psycopg
import pytest
from django.db import DataError, OperationalError
from django.test import Client

from controlplane.api import views
from controlplane.models import Agent, Circuit, Dependency, Environment, PolicyRevision, Tool
from tests.api.generated import Api
from tests.conftest import NOON
from tests.dashboard import stage

AGENTS = "/api/v1/environments/prod/agents"
FORCE_CLOSE = "/api/v1/environments/prod/circuits/search-api/actions/force-close"


@pytest.fixture
def api(cast, as_):
    return as_(cast.ada)


def untouched(cast):
    """Nothing was made or changed."""
    counts = [model.objects.count() for model in (Environment, Agent, Dependency, Tool, PolicyRevision)]
    return counts == [2, 3, 4, 5, 0] and set(Circuit.objects.values_list("state", flat=True)) == {"closed"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "bad_json"),
        (b"nonsense", "bad_json"),
        (b'{"slug": NaN, "name": "x"}', "bad_json"),
        (b'{"slug": 1e999, "name": "x"}', "bad_json"),
        (b'{"slug": "a", "slug": "b", "name": "x"}', "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b'{"slug": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}", "bad_json"),
        (b'{"slug": ' + b"9" * 5000 + b"}", "bad_json"),
        (b'{"slug": "\xff"}', "bad_encoding"),
        ('{"slug": "x"}'.encode("utf-16"), "bad_encoding"),
    ],
)
def test_what_is_not_json_is_refused(cast, api, body, code):
    answer = api.send("POST", AGENTS, body)

    assert (answer.status, answer.error["code"]) == (400, code)
    assert untouched(cast)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[]", None),
        (b'"text"', None),
        (b"null", None),
        (b"5", None),
        (b"", "slug"),
        (b"{}", "slug"),
        ({"slug": "billing"}, "name"),
        ({"slug": "billing", "name": None}, "name"),
        ({"slug": "billing", "name": ""}, "name"),
        ({"slug": "billing", "name": "   "}, "name"),
        ({"slug": "billing", "name": 5}, "name"),
        ({"slug": "billing", "name": True}, "name"),
        ({"slug": "billing", "name": ["B"]}, "name"),
        ({"slug": "billing", "name": {"a": 1}}, "name"),
        ({"slug": "billing", "name": "x" * 101}, "name"),
        ({"slug": "bil ling", "name": "B"}, "slug"),
        ({"slug": "bíl", "name": "B"}, "slug"),
        ({"slug": "billing", "name": "B", "owner": "a\x00b"}, "owner"),
        ({"slug": "billing", "name": "B\x1b[31m"}, "name"),
        (b'{"slug": "billing", "name": "\\ud800"}', "name"),
        (b'{"slug": "billing", "na\\u0000me": "B"}', ""),
        ({"slug": "billing", "name": "B", "id": 7}, "id"),
        ({"slug": "billing", "name": "B", "created_at": "2026-01-01T00:00:00Z"}, "created_at"),
        ({"slug": "billing", "name": "B", "x" * 5000: 1}, "x" * 100),
    ],
)
def test_a_field_that_is_wrong_is_named(cast, api, body, field):
    answer = api.send("POST", AGENTS, body)

    assert (answer.status, answer.error["code"], answer.error["field"]) == (422, "bad_field", field), answer.data
    assert untouched(cast)


def test_a_misspelt_field_says_what_was_perhaps_meant(cast, api):
    answer = api.create_agent({"slug": "billing", "name": "B", "ownr": "x"}, environment="prod")

    assert (answer.error["field"], answer.error["mend"]) == ("ownr", "did you mean owner?")
    assert untouched(cast)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "t", "dependencies": "search-api"}, "dependencies"),
        ({"name": "t", "dependencies": {"a": "search-api"}}, "dependencies"),
        ({"name": "t", "dependencies": []}, "dependencies"),
        ({"name": "t", "dependencies": [5]}, "dependencies[0]"),
        ({"name": "t", "dependencies": ["search-api", None]}, "dependencies[1]"),
        ({"name": "t", "dependencies": ["search-api"] * 51}, "dependencies"),
        ({"name": "t\tt", "dependencies": ["search-api"]}, "name"),
        ({"name": " t", "dependencies": ["search-api"]}, "name"),
        ({"name": "t", "dependencies": ["search-api"], "side_effect": "harmless"}, "side_effect"),
        ({"name": "t", "dependencies": ["search-api"], "side_effect": ["read_only"]}, "side_effect"),
        ({"name": "t", "dependencies": ["search-api"], "costly": 1}, "costly"),
        ({"name": "t", "dependencies": ["search-api"], "costly": "true"}, "costly"),
    ],
)
def test_a_tool_that_cannot_be_is_refused(cast, api, body, field):
    answer = api.send("POST", "/api/v1/environments/prod/tools", body)

    assert (answer.status, answer.error["field"]) == (422, field), answer.data
    assert untouched(cast)


def test_too_large_a_body_is_refused(cast, api):
    at_most = b" " * (1024 * 1024 - 2) + b"{}"

    assert api.send("POST", AGENTS, at_most).status == 422
    answer = api.send("POST", AGENTS, at_most + b" ")

    assert (answer.status, answer.error["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
def test_a_body_that_is_not_json_by_its_type_is_refused(cast, api, kind):
    answer = api.send("POST", AGENTS, b"slug=billing&name=B", headers={"Content-Type": kind})

    assert (answer.status, answer.error["code"]) == (415, "bad_type")


def test_a_form_is_refused_before_it_is_read_for_a_csrf_token(cast, signed_in):
    api = signed_in(cast.ada, csrf=True)

    answer = api.send("POST", AGENTS, b"a=" + b"x" * 3_000_000,
                      headers={"Content-Type": "application/x-www-form-urlencoded"})  # fmt: skip

    assert (answer.status, answer.error["code"]) == (415, "bad_type")


def test_a_compressed_body_is_refused(cast, api):
    answer = api.send("POST", AGENTS, gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})

    assert (answer.status, answer.error["code"]) == (415, "bad_encoding")


def test_a_body_of_unknown_length_is_refused_and_not_taken_for_none(cast, api):
    answer = api.send("POST", AGENTS, headers={"Transfer-Encoding": "chunked"})

    assert (answer.status, answer.error["code"]) == (411, "length_required")


@pytest.mark.parametrize(("method", "path"), [("PUT", AGENTS), ("DELETE", FORCE_CLOSE), ("GET", FORCE_CLOSE),
                                              ("OPTIONS", AGENTS), ("TRACE", AGENTS)])  # fmt: skip
def test_a_method_that_is_not_there_is_refused(cast, api, method, path):
    answer = api.send(method, path)

    assert (answer.status, answer.error["code"]) == (405, "bad_method")


def test_a_change_takes_no_parameters_in_its_address(cast, api):
    answer = api.send("POST", f"{FORCE_CLOSE}?reason=back", {"reason": "x"})

    assert (answer.status, answer.error["field"]) == (422, "reason")


def test_more_parameters_than_anybody_needs_are_refused(cast, api):
    answer = api.send("GET", f"{AGENTS}?{'a=1&' * 1500}")

    assert (answer.status, answer.error["code"]) == (400, "bad_request")


@pytest.mark.parametrize("key", ["", "x" * 101])
def test_an_idempotency_key_that_is_none_is_refused(cast, api, key):
    stage.opened(cast.search_api, NOON)

    answer = api.send("POST", FORCE_CLOSE, {"reason": "x"}, headers={"Idempotency-Key": key})

    assert (answer.status, answer.error["field"]) == (422, "Idempotency-Key")
    assert Circuit.objects.get(dependency=cast.search_api).state == "open"


@pytest.mark.parametrize("reason", ["", "   ", None, "x" * 501, 5, "a\x00b"])
def test_a_deed_without_a_reason_is_refused(cast, api, reason):
    stage.opened(cast.search_api, NOON)

    answer = api.send("POST", FORCE_CLOSE, {"reason": reason})

    assert (answer.status, answer.error["field"]) == (422, "reason")
    assert Circuit.objects.get(dependency=cast.search_api).state == "open"


@pytest.mark.parametrize("environment", ["staging", "prodd"])
def test_a_deed_in_another_environment_touches_nothing(cast, api, environment):
    stage.opened(cast.payments, NOON)

    answer = api.force_close({"reason": "x"}, environment=environment, dependency="payments")

    assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert Circuit.objects.get(dependency=cast.payments).state == "open"


@pytest.mark.parametrize("values", [[], "x", None, {"min_calls": {"a": [1] * 1000}}, {"a" * 900: 1}, {"circuit": 5},
                                    {"error_map": {"402": "no such word"}}])  # fmt: skip
def test_policy_values_of_the_wrong_kind_are_refused(cast, api, values):
    for name, address in (
        ("publish_environment_policy", {}),
        ("publish_dependency_policy", {"dependency": "search-api"}),
        ("publish_tool_policy", {"tool": "refund"}),
    ):
        answer = getattr(api, name)({"values": values, "reason": "x"}, environment="prod", if_match="*", **address)
        assert answer.status == 422, (name, answer.data)
    assert untouched(cast)


@pytest.mark.parametrize("tag", ["abc", '"', '""', "W/", '"' + "x" * 500 + '"', "**", ","])
def test_an_if_match_that_is_none_matches_nothing(cast, api, tag):
    answer = api.edit_agent({"name": "x"}, environment="prod", agent="research", if_match=tag)

    assert answer.status == 412
    assert Agent.objects.get(pk=cast.research.pk).name == "Research"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OperationalError("gone"), 503, "unavailable"),
        (DataError("out of range"), 422, "bad_field"),
        (RuntimeError("a secret: hush"), 500, "internal"),
        (psycopg.OperationalError("a secret: hush"), 500, "internal"),
    ],
)
def test_what_breaks_inside_stays_inside(cast, api, monkeypatch, caplog, error, status, code):
    def broken(**_):
        raise error

    monkeypatch.setattr(views.access.catalogue, "create_agent", broken)
    answer = api.create_agent({"slug": "billing", "name": "B"}, environment="prod")

    assert (answer.status, answer.error["code"]) == (status, code)
    assert "hush" not in json.dumps(answer.data)
    assert ("Retry-After" in answer.headers) == (status == 503)


def test_no_route_of_the_api_answers_in_another_shape(cast, document):
    api = Api(document, Client())

    for path in ("/api/v1/", "/api/v1/x", "/api/v1/environments/", "/api/v1/environments/prod/x/y/z", "/api/v1//"):
        assert api.send("GET", path).status in (401, 404)
        assert api.send("POST", path, {}).status in (401, 404)
