"""What holds for every kind of probe: the guard, the proxy, the time limit, what is kept."""

import json
import re
import time
from pathlib import Path

import pytest
from recloser.core.types import Verdict

from controlplane import egress, probe_spec
from controlplane.probe_spec.fields import fields_of
from tests.workers import counterparts
from tests.workers.counterparts import Proxy, listening
from tests.workers.kinds import KINDS, ask, asks, healthy, loopback
from workers import probers

each_kind = pytest.mark.parametrize("kind", KINDS)
SECRETS = {
    None: {"X-Key": "never-to-be-seen"},
    ("password",): {"password": ""},
    ("api_key",): {"api_key": "never-seen-1"},
}


@pytest.fixture(autouse=True)
def trusting(servers, monkeypatch):
    servers["certificate"].trusted(monkeypatch)


@each_kind
async def test_a_healthy_counterpart_is_good_at_the_address_that_was_checked_under_the_name_that_was_given(
    kind, servers
):
    async with healthy(kind, servers) as port:
        found = await ask(kind, asks(kind, port, latency_ms=4000))

    assert found.ruling() == (Verdict.GOOD, "passed", False), found.answered()
    assert found.conditions[-1]["name"] == "latency"
    assert found.connected_at is not None
    assert found.asked["method"] and found.asked["address"]


@each_kind
async def test_p03_a_name_that_leads_inside_on_the_second_look_is_refused_and_nobody_is_asked(kind, servers):
    looks = iter([["93.184.216.34"], ["10.1.2.3"]])

    async def rebinding(host, port):
        return next(looks)

    spec = asks(kind, 4000)
    await egress.resolve_allowed(*probe_spec.read(spec, kind).target, networks=(), resolve=rebinding)
    found = await ask(kind, spec, networks=(), resolve=rebinding)

    assert found.ruling() == (Verdict.INCONCLUSIVE, "refused_address", True)
    assert found.detail == f"{egress.Blocked()}: {egress.MENDING}"
    assert found.connected_at is None


@each_kind
async def test_p03_one_forbidden_address_among_public_ones_refuses_the_name(kind):
    async def mixed(host, port):
        return ["93.184.216.34", "::ffff:169.254.169.254"]

    assert (await ask(kind, asks(kind, 4000), networks=(), resolve=mixed)).ruling().cause == "refused_address"


@each_kind
async def test_the_proxy_is_asked_for_the_address_that_was_checked_and_for_no_name(kind, servers):
    proxy = Proxy()
    async with listening(proxy.handle) as way, healthy(kind, servers) as port:
        found = await ask(kind, asks(kind, port), proxy=f"http://ann:s%3Acret@127.0.0.1:{way}")

    assert found.ruling().verdict is Verdict.GOOD, found.answered()
    assert set(proxy.targets) == {f"127.0.0.1:{port}"}
    assert set(proxy.credentials) == {"Basic YW5uOnM6Y3JldA=="}


@each_kind
@pytest.mark.parametrize(
    ("status", "expected"),
    [(403, (Verdict.INCONCLUSIVE, "gate", False)), (502, (Verdict.BAD, "connect", False))],
)
async def test_what_the_proxy_refuses_says_nothing_about_the_vendor(kind, status, expected):
    proxy = Proxy(status)
    async with listening(proxy.handle) as way:
        found = await ask(kind, asks(kind, 4000), proxy=f"http://127.0.0.1:{way}")

    assert found.ruling() == expected


@each_kind
async def test_a_proxy_that_is_away_is_our_own_trouble(kind):
    async with listening(counterparts.silent) as gone:
        pass

    found = await ask(kind, asks(kind, 4000), proxy=f"http://127.0.0.1:{gone}")

    assert found.ruling() == (Verdict.INCONCLUSIVE, "gate", False)


@each_kind
async def test_the_guard_stands_before_the_proxy(kind):
    proxy = Proxy()
    async with listening(proxy.handle) as way:
        found = await ask(kind, asks(kind, 4000), networks=(), proxy=f"http://127.0.0.1:{way}")

    assert found.ruling().cause == "refused_address"
    assert proxy.targets == []


@each_kind
async def test_silence_ends_at_the_time_limit(kind):
    began = time.monotonic()
    async with listening(counterparts.silent) as port:
        found = await ask(kind, asks(kind, port), limit=0.3)

    assert time.monotonic() - began < 3
    if kind == "dns":  # over UDP nobody listens there at all
        assert found.ruling().cause == "connect"
    else:
        assert found.ruling()[:2] == (Verdict.BAD, "timeout")


@each_kind
async def test_a_port_where_nobody_listens_is_named_as_no_connection(kind):
    async with listening(counterparts.silent) as port:
        pass

    assert (await ask(kind, asks(kind, port))).ruling() == (Verdict.BAD, "connect", False)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("tcp", "dns")])
@pytest.mark.parametrize("fault", [counterparts.resetting, counterparts.babbling])
async def test_a_reset_and_nonsense_are_bad_and_nothing_worse(kind, fault):
    async with listening(fault) as port:
        found = await ask(kind, asks(kind, port), limit=2)

    assert found.ruling().verdict is Verdict.BAD
    assert found.fault is not None
    assert "what a day" not in json.dumps(found.answered())


@each_kind
async def test_a_name_that_does_not_resolve_is_told_as_such(kind):
    async def nowhere(host, port):
        raise egress.Unresolvable

    assert (await ask(kind, asks(kind, 4000), resolve=nowhere)).ruling() == (Verdict.BAD, "resolve", False)


@each_kind
async def test_secrets_are_in_nothing_that_is_kept(kind, servers):
    async with healthy(kind, servers) as port:
        found = await ask(kind, asks(kind, port), secrets=SECRETS.get(probe_spec.KINDS[kind].SECRETS, {}))

    assert "never" not in json.dumps([found.asked, found.answered()])


@each_kind
def test_what_was_read_can_be_stored_and_read_again(kind):
    spec = probe_spec.read(asks(kind, 4000), kind)

    assert probe_spec.read(json.loads(json.dumps(spec.to_dict())), kind) == spec


@each_kind
def test_every_field_refuses_what_it_cannot_use_and_says_which_and_how_to_mend_it(kind):
    for field in probe_spec.read(asks(kind, 4000), kind).to_dict():
        for hostile in (["\x00"], {"": []}, "\ud800", 10**30, float("nan"), -1, object()):
            try:
                read = probe_spec.read(asks(kind, 4000) | {field: hostile}, kind)
            except probe_spec.BadSpec as bad:
                assert bad.field.split(".")[0].split("[")[0] == field or "." not in bad.field
                assert bad.message and bad.mend
            else:
                json.dumps(read.to_dict(), allow_nan=False)


@pytest.mark.parametrize("hostile", [float("nan"), float("inf"), "\x00", "\ud800"])
@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        ("http", lambda value: {"body_condition": {"kind": "json_equals", "path": "$.a", "value": value}}),
        ("mcp", lambda value: {"call_tool": "search", "call_arguments": {"deep": [{"er": value}]}}),
        ("steps", lambda value: {"steps": [{"name": "x", "path": "/", "capture": {"id": f"header:{value}"}}]}
         if isinstance(value, str) else {"steps": value}),
    ],
)  # fmt: skip
def test_nothing_is_read_that_the_database_could_not_keep(kind, wrap, hostile):
    try:
        read = probe_spec.read(asks(kind, 4000) | wrap(hostile), kind)
    except probe_spec.BadSpec as bad:
        assert bad.mend
    else:
        assert "\\u0000" not in json.dumps(read.to_dict(), allow_nan=False, ensure_ascii=False)
        json.dumps(read.to_dict(), ensure_ascii=False).encode()


@each_kind
@pytest.mark.parametrize("given", [{}, {"nonsense": 1}, {"time_limit_s": 1}])
def test_a_missing_or_unknown_field_is_named(kind, given):
    with pytest.raises(probe_spec.BadSpec) as bad:
        probe_spec.read(given, kind)

    assert bad.value.field


def test_every_kind_has_a_prober():
    for kind in KINDS:
        prober = probers.prober_of(kind)
        assert callable(prober.asked) and callable(prober.converse)


async def test_the_tests_own_names_are_looked_up_by_the_tests_alone():
    with pytest.raises(AssertionError):
        await loopback("api.example.com", 443)


@each_kind
def test_the_documentation_names_every_kind_with_its_fields(kind):
    page = (Path(__file__).parents[2] / "docs/probes.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{kind}` |"))

    fields = {field.name for field in fields_of(probe_spec.KINDS[kind])} - {"latency_ms", "time_limit_s"}
    assert set(re.findall(r"`(\w+)`", row.split("|")[3])) == fields
