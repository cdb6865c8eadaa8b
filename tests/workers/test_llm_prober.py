"""The prober of model providers against a vendor that answers as each of them does."""

import json

import pytest
from recloser.core.types import Verdict

from controlplane import probe_spec
from tests.workers.kinds import MODELS, ask
from tests.workers.vendor import reply

PAID = {"ask": "completion", "model": "small-1", "cost_per_probe_usd": 0.001, "daily_cap_usd": 0.01}
KEY = {"api_key": "sk-never-to-be-seen"}
GEMINI = reply(200, json.dumps({"models": [{"name": "models/small-1"}]}))
SPOKEN = reply(200, json.dumps({"choices": [{"message": {"content": "p"}}]}))


async def probe(vendor, provider="openai", **more):
    spec = {"url": f"http://vendor.example:{vendor.port}/v1", "provider": provider, **more}
    return await ask("llm", spec, secrets=KEY)


@pytest.mark.parametrize(
    ("provider", "header"),
    [
        ("openai", "authorization"),
        ("compatible", "authorization"),
        ("anthropic", "x-api-key"),
        ("gemini", "x-goog-api-key"),
    ],
)
async def test_each_provider_is_asked_for_its_models_with_the_key_where_it_wants_it(vendor, provider, header):
    vendor.routes["/v1/models"] = GEMINI if provider == "gemini" else MODELS
    found = await probe(vendor, provider, expected=["small-1"])

    assert found.ruling() == (Verdict.GOOD, "passed", False), found.answered()
    assert vendor.seen[0].headers[header].removeprefix("Bearer ") == KEY["api_key"]
    assert "never" not in json.dumps([found.asked, found.answered()])


@pytest.mark.parametrize(
    ("provider", "path", "answer"),
    [
        ("openai", "/v1/chat/completions", {"choices": [{}]}),
        ("compatible", "/v1/chat/completions", {"choices": [{}]}),
        ("anthropic", "/v1/messages", {"content": [{"type": "text", "text": "p"}]}),
        ("gemini", "/v1/models/small-1:generateContent", {"candidates": [{}]}),
    ],
)
async def test_one_token_is_asked_for_where_it_is_paid_for(vendor, provider, path, answer):
    vendor.routes[path] = reply(200, json.dumps(answer))
    found = await probe(vendor, provider, **PAID)

    assert found.ruling() == (Verdict.GOOD, "passed", False), found.answered()
    body = json.loads(vendor.seen[0].body)
    assert 1 in (
        body.get("max_tokens"),
        body.get("max_completion_tokens"),
        body.get("generationConfig", {}).get("maxOutputTokens"),
    )


@pytest.mark.parametrize(
    ("answer", "more", "expected"),
    [
        (MODELS, {"expected": ["gone-1"]}, (Verdict.BAD, "listed")),
        (reply(401, '{"error": {}}'), {}, (Verdict.INCONCLUSIVE, "bad_request")),
        (reply(429, '{"error": {}}', Retry_After="9"), {}, (Verdict.BAD, "status")),
        (reply(302, "", Location="/welcome"), {}, (Verdict.BAD, "status")),
        (reply(200, "<html>maintenance</html>"), {}, (Verdict.BAD, "answer")),
        (reply(200, '{"error": "overloaded"}'), {}, (Verdict.BAD, "answer")),
    ],
)
async def test_each_answer_has_its_verdict(vendor, answer, more, expected):
    vendor.routes["/v1/models"] = answer

    assert (await probe(vendor, **more)).ruling()[:2] == expected
    assert len(vendor.seen) == 1


@pytest.mark.parametrize(
    ("more", "field"),
    [({"model": ""}, "model"), ({"cost_per_probe_usd": 0}, "cost_per_probe_usd"),
     ({"daily_cap_usd": 0}, "daily_cap_usd"),
     ({"expected": ["small-1"]}, "expected"), ({"cost_per_probe_usd": 5}, "cost_per_probe_usd")],
)  # fmt: skip
def test_a_completion_without_model_price_or_cap_is_refused(more, field):
    with pytest.raises(probe_spec.BadSpec) as bad:
        probe_spec.read({"url": "https://api.example.com/v1", **PAID, **more}, "llm")

    assert bad.value.field == field
