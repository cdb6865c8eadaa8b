"""Probes of every kind over the API."""

import pytest

from controlplane.models import Probe, ProbeTest
from controlplane.services import egress
from tests.factories import NOON
from tests.workers.kinds import KINDS, asks

HERE = {"environment": "prod", "dependency": "search-api"}


@pytest.fixture
def loopback(db):
    egress.allow_network(network="127.0.0.0/8", reason="tests", actor="ada", now=NOON)


def local(kind):
    return asks(kind, 8000, host="127.0.0.1")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_set_read_and_tried(cast, loopback, as_, kind):
    api = as_(cast.otto)
    made = api.set_probe({"operation": "web_search", "kind": kind, "spec": local(kind)}, **HERE)
    read = api.read_probe(**HERE).data
    tried = api.test_probe({}, **HERE)

    assert made.status in (200, 201), made.error
    assert (read["kind"], read["operation"]) == (kind, "web_search")
    assert local(kind).keys() <= read["spec"].keys()
    assert (tried.status, tried.data["kind"]) == (202, kind), tried.error
    assert ProbeTest.objects.get().spec == Probe.objects.get().spec


def test_secrets_by_name_go_in_and_never_come_out(cast, loopback, as_):
    body = {"operation": "x", "kind": "redis", "spec": local("redis"), "secret_values": {"password": "hush-hush"}}
    made = as_(cast.otto).set_probe(body, **HERE)

    assert made.data["secret_values"] == {"password": "********"}
    assert made.data["secret_headers"] == {}
    assert "hush" not in str(Probe.objects.values().get())


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"kind": "telnet"}, "kind"),
        ({"kind": "tcp", "spec": {"host": "127.0.0.1", "port": 70_000}}, "port"),
        ({"kind": "tcp", "spec": {"host": "10.1.2.3", "port": 80}}, "host"),
        ({"kind": "tcp", "secret_values": {"password": "x"}}, "secret_values"),
        ({"kind": "tcp", "secret_values": {"password": 3}}, "secret_values.password"),
        (
            {"kind": "steps", "spec": {"url": "http://127.0.0.1", "steps": [{"name": "x", "path": "x"}]}},
            "steps[0].path",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_mending(cast, loopback, as_, more, field):
    answer = as_(cast.otto).set_probe({"operation": "x", "spec": local("tcp"), **more}, **HERE)

    assert (answer.status, answer.error["field"]) == (422, field), answer.error
    assert answer.error["mend"]
