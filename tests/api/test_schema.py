"""The API's own description: it is valid, it is whole, a client made from it works, and no input breaks a view."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import httpx
import pytest
import schemathesis
from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.urls import URLPattern, URLResolver
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from schemathesis.generation import GenerationMode

from controlplane.api import urls
from controlplane.models import Circuit, Outage, Transition, Trip
from controlplane.services import tokens
from tests.conftest import NOON
from tests.dashboard import stage

BASE = "http://127.0.0.1"


def test_the_description_is_valid_and_served_to_everybody(client, document):
    answer = client.get("/api/v1/schema/")

    assert answer.status_code == 200
    assert answer.json() == document
    assert document["openapi"] == "3.1.0"
    validate(document)


def test_every_address_is_described(document):
    def count(patterns):
        return sum(count(one.url_patterns) if isinstance(one, URLResolver) else 1 for one in patterns)

    assert isinstance(urls.urlpatterns[0], URLPattern)
    assert count(urls.described) == len(document["paths"])


def test_drawing_it_raises_no_warning(capsys):
    from controlplane.api import schema

    schema._drawn.cache_clear()
    schema.document()

    assert capsys.readouterr().err == ""


def test_operations_have_names_that_stay(document):
    names = [said["operationId"] for methods in document["paths"].values() for said in methods.values()]

    assert len(names) == len(set(names))
    assert {"list_circuits", "force_close", "edit_tool", "publish_tool_policy", "issue_key"} <= set(names)
    for methods in document["paths"].values():
        for said in methods.values():
            assert "Needs `" in said["description"]
            assert said["security"]


@pytest.fixture
def wsgi():
    """The whole of Django, in the test's own transaction: a request's end closes no connection here."""
    connected = (signals.request_started, signals.request_finished)
    for each in connected:
        each.disconnect(close_old_connections)
    yield get_wsgi_application()
    for each in connected:
        each.connect(close_old_connections)


# A client that a stranger's generator makes


@pytest.fixture(scope="session")
def made_client(document, tmp_path_factory):
    """The typed client that openapi-python-client writes, without any network."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "schema.json").write_text(json.dumps(document))
    (folder / "config.yml").write_text("post_hooks: []\n")
    made = subprocess.run(
        [Path(sys.executable).with_name("openapi-python-client"), "generate", "--meta", "none", "--fail-on-warning",
         "--path", "schema.json", "--config", "config.yml", "--output-path", "recloser_made_client"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    sys.path.insert(0, str(folder))
    importlib.import_module("recloser_made_client.models")
    yield importlib.import_module("recloser_made_client")
    sys.path.remove(str(folder))


def test_a_generated_client_sees_an_outage_through(cast, made_client, wsgi):
    stage.opened(cast.search_api, NOON)
    _, secret = tokens.issue(person=cast.otto, name="made", scopes=["view", "operate_circuit"], now=NOON)
    there = made_client.AuthenticatedClient(base_url=BASE, token=secret)
    there.set_httpx_client(
        httpx.Client(base_url=BASE, transport=httpx.WSGITransport(app=wsgi),
                     headers={"Authorization": f"Bearer {secret}"})
    )  # fmt: skip

    def call(operation, **given):
        module = importlib.import_module(f"recloser_made_client.api.circuits.{operation}")
        return module.sync(environment="prod", client=there, **given)

    page = call("list_circuits", state=made_client.models.ListCircuitsState.OPEN)
    (row,) = page.results
    assert (row.dependency, row.state, page.next_) == ("search-api", "open", None)

    hold = made_client.models.Hold(reason="vendor is back", for_s=600)
    held = call("hold_closed", dependency="search-api", body=hold)
    assert (held.mode, held.actor) == ("forced_closed", "otto")

    reason = made_client.models.Reason(reason="done")
    closed = call("force_close", dependency="search-api", body=reason, idempotency_key=str(uuid.uuid4()))
    assert closed.state == "closed"
    refused = call("read_circuit_of_dependency", dependency="serch-api")
    assert refused.error.mend == "did you mean search-api?"
    assert Circuit.objects.get(dependency=cast.search_api).state == "closed"


# Any input at all

LONGEST_S = 30.0
"""For all operations together; each gets an equal part of what is left, and its least however busy the machine is."""

LEAST = 2
"""Requests of each operation."""


def test_no_input_breaks_a_view(cast, wsgi):
    """Schemathesis asks every operation, in process, as somebody who may do everything.

    Every other request is about something that is there, so that it gets as far as what it changes.
    """
    stage.probe(cast.search_api, NOON)
    stage.opened(cast.search_api, NOON)
    run = stage.degraded(cast.research, NOON)
    there = {"dependency": "search-api", "tool": "web_search", "agent": "research", "prefix": "prodsupport",
             "worker": cast.workers[0].pk, "side_effect": "read_only", "run": run.pk, "trip": Trip.objects.get().pk,
             "outage": Outage.objects.get().pk, "transition": Transition.objects.get().pk}  # fmt: skip
    _, secret = tokens.issue(person=cast.ada, name="fuzz", scopes=tokens.scopes_of(cast.ada), now=NOON)
    schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", wsgi)
    operations = sorted((found.ok() for found in schema.get_all_operations()), key=lambda one: one.method == "delete")
    begun, asked, statuses = time.monotonic(), 0, set()

    for place, operation in enumerate(operations):
        now = time.monotonic()
        ends = now + (LONGEST_S - (now - begun)) / (len(operations) - place)
        least = asked + LEAST

        @settings(
            max_examples=12, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)))
        def ask(case):
            nonlocal asked
            if asked >= least and time.monotonic() > ends:  # noqa: B023 (it is called before they change)
                return
            real = {"environment": "prod"} | (there if asked % 2 else {})
            case.path_parameters |= {name: str(real[name]) for name in case.path_parameters if name in real}
            response = case.call(
                headers={"Authorization": f"Bearer {secret}", **({"If-Match": "*"} if asked % 2 else {})}
            )
            asked += 1
            statuses.add(response.status_code)
            assert response.status_code < 500, (case.as_curl_command(), response.text)
            if response.content and response.status_code >= 400:
                assert set(response.json()["error"]) == {"code", "field", "message", "mend"}

        ask()

    assert asked >= LEAST * len(operations)
    assert {200, 201, 404, 422} <= statuses, (asked, statuses)
