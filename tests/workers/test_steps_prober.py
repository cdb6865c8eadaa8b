"""The prober of several steps: values on their way into the next request, and a clean-up that always runs."""

import json

import pytest
from recloser.core.types import Verdict

from controlplane import probe_spec
from tests.workers.kinds import ask
from tests.workers.vendor import hang, reply

SESSION = "session/77 77&7"
SIGN_IN = {
    "name": "sign in", "path": "/session", "method": "POST", "body": "{}", "expected_status": "201",
    "capture": {"id": "$.session.id", "tag": "header:X-Tag"},
}  # fmt: skip
SEARCH = {
    "name": "search", "path": "/search?session={{id}}", "method": "POST", "headers": {"X-Tag": "{{tag}}"},
    "body": '{"session": "{{id}}"}', "body_condition": {"kind": "contains", "value": "results"},
}  # fmt: skip
SIGN_OUT = {"name": "sign out", "path": "/session/{{id}}", "method": "DELETE"}


@pytest.fixture
def walk(vendor):
    vendor.routes["/session"] = reply(201, json.dumps({"session": {"id": SESSION}}), X_Tag="tag-12345")
    vendor.routes["/search"] = reply(200, "results")
    vendor.routes["/session/session%2F77%2077%267"] = reply(204)

    async def go(steps=(SIGN_IN, SEARCH), cleanup=SIGN_OUT, limit=5.0, **more):
        spec = {"url": f"http://vendor.example:{vendor.port}", "steps": list(steps), "cleanup": cleanup, **more}
        return await ask("steps", spec, secrets={"Authorization": "Bearer s3cret-token"}, limit=limit)

    return go


async def test_captured_values_reach_the_next_step_and_the_clean_up(walk, vendor):
    found = await walk()

    assert found.ruling() == (Verdict.GOOD, "passed", False), found.answered()
    assert [(each.method, each.path) for each in vendor.seen] == [
        ("POST", "/session"),
        ("POST", "/search?session=session%2F77%2077%267"),
        ("DELETE", "/session/session%2F77%2077%267"),
    ]
    assert vendor.seen[1].headers["x-tag"] == "tag-12345"
    assert json.loads(vendor.seen[1].body) == {"session": SESSION}
    assert [each["step"] for each in found.conditions] == ["sign in", "search", "search"]
    assert found.asked["cleaned_up"] is True


async def test_neither_secrets_nor_captured_values_are_kept(walk):
    found = await walk()

    kept = json.dumps([found.asked, found.answered()])
    assert "s3cret" not in kept and "77 77" not in kept and "%2077" not in kept and "tag-12345" not in kept


@pytest.mark.parametrize(
    ("path", "answer", "expected"),
    [
        ("/search", reply(503, "", Retry_After="5"), (Verdict.BAD, "status")),
        ("/search", reply(200, "nothing"), (Verdict.BAD, "body")),
        ("/search", reply(400), (Verdict.INCONCLUSIVE, "bad_request")),
        ("/search", reply(302, "", Location="http://10.0.0.1/"), (Verdict.BAD, "status")),
        ("/search", hang, (Verdict.BAD, "timeout")),
    ],
)
async def test_the_clean_up_runs_whatever_became_of_the_steps(walk, vendor, path, answer, expected):
    vendor.routes[path] = answer
    found = await walk(limit=1.0)

    assert found.ruling()[:2] == expected, found.answered()
    assert vendor.seen[-1].method == "DELETE"
    assert found.asked["cleaned_up"] is True


async def test_what_was_never_captured_needs_no_clean_up(walk, vendor):
    vendor.routes["/session"] = reply(201, "{}")
    found = await walk()

    assert found.ruling()[:2] == (Verdict.BAD, "broken_answer")
    assert "nothing to capture as id" in found.detail
    assert [each.method for each in vendor.seen] == ["POST"]


async def test_a_clean_up_that_fails_is_told_and_changes_no_verdict(walk, vendor):
    vendor.routes["/session/session%2F77%2077%267"] = reply(500)
    found = await walk()

    assert found.ruling().verdict is Verdict.GOOD
    assert found.detail == "the clean-up failed: status"
    assert found.asked["cleaned_up"] is False


async def test_a_value_that_would_break_a_header_is_made_harmless(walk, vendor):
    vendor.routes["/session"] = reply(201, json.dumps({"session": {"id": "x\r\nX-Evil: 1"}}), X_Tag="t")
    await walk(steps=[SIGN_IN, {**SEARCH, "headers": {"X-Tag": "{{id}}"}}], cleanup=None)

    assert vendor.seen[1].headers["x-tag"] == "xX-Evil: 1"
    assert "x-evil" not in vendor.seen[1].headers


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"steps": []}, "steps"),
        ({"steps": [{"name": "x"}]}, "steps[0].path"),
        ({"steps": [{"name": "x", "path": "http://evil.example/"}]}, "steps[0].path"),
        ({"steps": [{"name": "x", "path": "//evil.example/"}]}, "steps[0].path"),
        ({"steps": [{"name": "x", "path": "/{{id}}"}]}, "steps[0].path"),
        ({"steps": [{"name": "x", "path": "/", "method": "DELETE"}]}, "steps[0].method"),
        ({"steps": [{"name": "x", "path": "/", "method": "PUT"}]}, "steps[0].method"),
        ({"steps": [{"name": "x", "path": "/", "capture": {"id": "nowhere"}}]}, "steps[0].capture"),
        ({"steps": [{"name": "x", "path": "/", "headers": {"Authorization": "x"}}]}, "steps[0].headers"),
        ({"cleanup": {"name": "x", "path": "/{{id}}"}}, "cleanup.path"),
        ({"url": "https://api.example.com/v1"}, "url"),
    ],
)
def test_a_walk_that_makes_no_sense_is_refused_at_its_step(more, field):
    spec = {"url": "https://api.example.com", "steps": [{"name": "x", "path": "/"}], **more}
    with pytest.raises(probe_spec.BadSpec) as bad:
        probe_spec.read(spec, "steps")

    assert bad.value.field == field
