"""Bad input: a clear error in the one shape, nothing lost, nothing half-done."""

import gzip
import json
import time
import zlib

import pytest

from controlplane import clock
from controlplane.models import Dependency, Observation, Run, Session, Tool, Trip, Worker
from controlplane.services import access
from tests.edge import harness
from tests.edge.harness import observation


def refused(answer, status, code, field=None):
    """The answer is that refusal, in the one shape, and nothing was kept."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "field", "message", "mend"}
    assert error["code"] == code
    assert error["field"] == field
    assert error["message"]
    assert error["mend"]
    for model in (Observation, Trip, Run, Session, Worker, Tool, Dependency):
        assert not model.objects.exists(), model


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({}, "none"),
        ({"authorization": "Bearer"}, "empty"),
        ({"authorization": "Bearer rcl_nobody_" + "x" * 43}, "unknown"),
        ({"authorization": "Basic rcl_nobody_secret"}, "another scheme"),
        ({"authorization": "Bearer \xff\xfe"}, "not ASCII"),
    ],
)
def test_without_a_valid_key_nothing_is_read(edge, prod, header, why):
    headers = [(name.encode(), value.encode("latin-1")) for name, value in header.items()]

    refused(edge.request("POST", "/agent/v1/batch", content=b"{}", headers=headers), 401, "bad_key")


def test_a_right_prefix_with_a_wrong_secret_is_nobody_s(edge, key):
    token = key.token[:-4] + "zzzz"

    refused(harness.Agent(edge, token).post_raw(b"{}"), 401, "bad_key")


def test_a_revoked_key_is_refused_within_two_seconds(agent, key):
    agent.send()
    access.revoke_key(key=key, actor="ann", now=clock.now())

    harness.until(lambda: agent.get("circuits").status_code == 401, within=2.0, what="the revocation")


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b'{"format": NaN}', b"[" * 100_000, b'{"a": "\\ud800"}'])
def test_what_is_not_json_is_refused(agent, body):
    answer = agent.post_raw(body)

    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["code"] in ("bad_json", "bad_field")


def test_deep_nesting_is_refused(agent):
    body = json.dumps(agent.batch()).encode()[:-1] + b', "extra": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"

    refused(agent.post_raw(body), 400, "bad_json")


def test_what_is_not_utf8_is_refused(agent):
    refused(agent.post_raw(b'{"format": 1, "sdk": "\xff"}'), 400, "bad_encoding")


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"{}" * 100)[:-5], gzip.compress(b"{}") + b"rest"],
    ids=["not gzip", "cut off", "with a rest"],
)
def test_a_broken_gzip_is_refused(agent, body):
    refused(agent.post_raw(body, **{"content-encoding": "gzip"}), 400, "bad_encoding")


@pytest.mark.parametrize("members", [1, 4])
def test_a_gzip_bomb_is_stopped(agent, members):
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(b" " * (64 // members) * 1024 * 1024) + packer.flush()
    assert len(bomb) * members < 1024 * 1024

    refused(agent.post_raw(bomb * members, **{"content-encoding": "gzip"}), 413, "too_large")


def test_too_large_a_body_is_refused(agent):
    refused(agent.post_raw(b" " * (1024 * 1024 + 1)), 413, "too_large")


def test_too_large_a_body_is_refused_though_its_length_is_not_declared(agent):
    async def parts():
        for _ in range(17):
            yield b" " * 65_536

    refused(agent.post_raw(parts()), 413, "too_large")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip"])
def test_another_encoding_is_refused(agent, encoding):
    refused(agent.post_raw(b"{}", **{"content-encoding": encoding}), 415, "bad_encoding")


def test_another_environment_is_refused(agent, staging):
    agent.environment = "staging"

    refused(agent.post(agent.batch(observations=[observation()])), 403, "wrong_environment", "environment")


def test_another_agent_is_refused(agent):
    refused(agent.post(agent.batch(agent="support")), 403, "wrong_agent", "agent")


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("format", {"format": 2}),
        ("session", {"session": "no uuid"}),
        ("seq", {"seq": 0}),
        ("seq", {"seq": 2**63}),
        ("instance", {"instance": "x" * 201}),
        ("instance", {"instance": ""}),
        ("instance", {"instance": "pod\u0000"}),
        ("sdk", {"sdk": "x\n"}),
        ("pid", {"pid": -1}),
        ("stale_s", {"stale_s": -1.0}),
        ("observations", {"observations": [observation()] * 501}),
        ("trips", {"trips": [harness.trip()] * 201}),
        ("runs", {"runs": [harness.run()] * 201}),
        ("runs[0].step_log", {"runs": [harness.run(step_log=[{"step": 1, "tool": "a", "outcome": "ok"}] * 501)]}),
        ("runs[0].status", {"runs": [harness.run(status="abandoned")]}),
        ("runs[0].revision", {"runs": [harness.run(revision=2**31)]}),
        ("runs[0].disclosure", {"runs": [harness.run(disclosure="\u0000")]}),
        ("runs[0].missing[0].tool", {"runs": [harness.run(missing=[{"tool": "a\u0000"}])]}),
        ("trips[0].scope", {"trips": [harness.trip(scope="fleet")]}),
        ("trips[0].signal", {"trips": [harness.trip(signal="bad_mood")]}),
        ("trips[0].evidence[...]", {"trips": [harness.trip(evidence={"a": "\u0000"})]}),
        ("trips[0].evidence", {"trips": [harness.trip(evidence={"\u0000": 1})]}),
        ("trips[0].threshold", {"trips": [harness.trip(threshold={"": 1})]}),
    ],
)
def test_a_field_that_does_not_fit_is_named(agent, field, change):
    refused(agent.post({**agent.batch(observations=[observation()]), **change}), 422, "bad_field", field)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("tool", {"tool": "x" * 201}),
        ("tool", {"tool": ""}),
        ("tool", {"tool": None}),
        ("tool", {"tool": "a\u0000b"}),
        ("tool", {"tool": "a\u001b[31m"}),
        ("dependency", {"dependency": "a\n"}),
        ("operation", {"operation": "a\u0000"}),
        ("generation", {"generation": -1}),
        ("generation", {"generation": 2**63}),
        ("age_s", {"age_s": -0.5}),
        ("age_s", {"age_s": 1e12}),
        ("age_s", {"age_s": "1"}),
        ("span_s", {"span_s": -1}),
        ("counts.ok", {"counts": {"ok": -1}}),
        ("counts.ok", {"counts": {"ok": 1.5}}),
        ("counts.ok", {"counts": {"ok": 2**31}}),
        ("counts.exploded", {"counts": {"exploded": 1}}),
        ("attempts", {"attempts": 2**40}),
        ("latency_ms.hist", {"latency_ms": {"hist": [0] * 17}}),
        ("latency_ms.max", {"latency_ms": {"max": -1.0}}),
        ("retry_after_s", {"retry_after_s": -5}),
        ("samples", {"samples": [{"outcome": "timeout"}] * 6}),
        ("samples[0].error", {"samples": [{"outcome": "timeout", "error": "x" * 65}]}),
        ("samples[0].outcome", {"samples": [{"outcome": "sad"}]}),
    ],
)
def test_an_observation_that_does_not_fit_is_named_by_its_place(agent, field, change):
    batch = agent.batch(observations=[observation(), {**observation(), **change}])

    refused(agent.post(batch), 422, "bad_field", f"observations[1].{field}")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused(agent, number):
    body = json.dumps(agent.batch(observations=[observation(age_s=12345.0)])).replace("12345.0", number)

    assert agent.post_raw(body.encode()).status_code in (400, 422)
    assert not Observation.objects.exists()


def test_a_missing_field_is_named(agent):
    batch = agent.batch(observations=[{"tool": "web_search"}])

    refused(agent.post(batch), 422, "bad_field", "observations[0].dependency")


def test_the_rest_may_be_sent_with_the_same_number(agent):
    batch = agent.batch(observations=[observation(), {**observation(), "age_s": -1}])
    assert agent.post(batch).status_code == 422

    answer = agent.post({**batch, "observations": [observation()]}).json()

    assert (answer["ack"], answer["repeat"]) == (1, False)
    assert Observation.objects.count() == 1


@pytest.mark.parametrize(
    "text", ["naïve 工具 🔧", "<script>alert(1)</script>", "'; DROP TABLE observation; --", "\\u0000"]
)
def test_strange_but_printable_names_are_kept_as_they_are(agent, text):
    agent.send(observation(tool=text, dependency=text))

    assert Tool.objects.get().name == text


@pytest.mark.parametrize(("method", "path"), [("GET", "batch"), ("POST", "config"), ("GET", "nothing"), ("PUT", "x/y")])
def test_a_route_that_is_not_there_is_said_so(edge, method, path):
    answer = edge.request(method, f"/agent/v1/{path}")

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"counts": {"ok": 2**31 - 1, "empty": 1}}, "observations[0].counts"),
        ({"counts": {"ok": 10**9, "rejected": 1}}, "observations[0].counts"),
        ({"counts": {"ok": 1}, "slow": 2}, "observations[0].slow"),
        ({"counts": {"timeout": 1}, "slow_failures": 2}, "observations[0].slow_failures"),
        ({"counts": {"timeout": 1}, "streak": 2}, "observations[0].streak"),
    ],
)
def test_more_calls_than_there_can_have_been_are_refused(agent, given, field):
    refused(agent.post(agent.batch(observations=[observation(**given)])), 422, "bad_field", field)


def test_a_gzip_of_very_many_members_is_refused_at_once(agent):
    body = gzip.compress(b"", 1) * 50_000
    began = time.monotonic()

    refused(agent.post_raw(body[: 1024 * 1024], **{"content-encoding": "gzip"}), 400, "bad_encoding")

    assert time.monotonic() - began < 0.5


def test_a_gzip_of_a_few_members_is_read(agent):
    body = json.dumps(agent.batch()).encode()
    parts = [body[at : at + 40] for at in range(0, len(body), 40)]

    assert len(parts) <= 16
    assert agent.post_raw(b"".join(map(gzip.compress, parts)), **{"content-encoding": "gzip"}).status_code == 200
