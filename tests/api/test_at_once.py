"""Two people, or one and a nervous script, at the same moment: one of them is first, the others are told so."""

from __future__ import annotations

from collections import Counter

import pytest

from controlplane.models import AuditEntry, Dependency, Probe, Tool, Transition
from controlplane.services import egress
from tests.conftest import NOON
from tests.crowd import at_once
from tests.dashboard import stage

pytestmark = pytest.mark.django_db(transaction=True)

URL = "http://127.0.0.1:1/health"
HERE = {"environment": "prod", "dependency": "search-api"}


def statuses(answers):
    return Counter(answer.status for answer in answers)


def test_of_eight_first_probes_one_is_the_first(cast, as_):
    egress.allow_network(network="127.0.0.0/8", reason="tests", actor="ada", now=NOON)
    api, body = as_(cast.otto), {"operation": "web_search", "spec": {"url": URL}}

    answers = at_once(lambda: api.set_probe(body, if_none_match="*", **HERE), 8)

    assert statuses(answers) == {200: 1, 412: 7}
    assert Probe.objects.count() == AuditEntry.objects.filter(action="save_probe", accepted=True).count() == 1


def test_a_second_first_probe_has_to_name_the_version_it_has_not_seen(cast, as_):
    egress.allow_network(network="127.0.0.0/8", reason="tests", actor="ada", now=NOON)
    api, body = as_(cast.otto), {"operation": "web_search", "spec": {"url": URL}}

    assert statuses(at_once(lambda: api.set_probe(body, **HERE), 8)) == {200: 1, 428: 7}


def test_of_eight_who_make_the_same_dependency_or_tool_one_has_made_it(cast, as_):
    api = as_(cast.ada)

    dependencies = at_once(lambda: api.create_dependency({"slug": "new-api"}, environment="prod"), 8)
    tool = {"name": "new_tool", "dependencies": ["new-api"]}
    tools = at_once(lambda: api.create_tool(tool, environment="prod"), 8)

    assert statuses(dependencies) == statuses(tools) == {201: 1, 409: 7}
    assert Dependency.objects.filter(slug="new-api").count() == Tool.objects.filter(name="new_tool").count() == 1


def test_a_key_of_somebody_else_s_deed_is_refused_instead_of_passing_for_one_s_own(cast, as_):
    stage.opened(cast.search_api, NOON)
    said = {"reason": "the vendor asked", "for_s": 600}

    first = as_(cast.otto).hold_open(said, idempotency_key="k-1", **HERE)
    second = as_(cast.ada).hold_open(said, idempotency_key="k-1", **HERE)

    assert (first.status, second.status, second.error["code"]) == (200, 409, "token_reused")
    assert Transition.objects.filter(cause="operator").values_list("actor", flat=True).get() == "otto"
