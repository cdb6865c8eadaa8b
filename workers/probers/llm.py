"""The prober of model providers: their list of models, or one token."""

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx

from controlplane.masking import MASK
from controlplane.probe_spec.llm import COMPLETION, LlmSpec
from workers.egress import GuardedBackend
from workers.probers import web
from workers.probers.answer import Findings, Unmet

ANTHROPIC_VERSION = "2023-06-01"
PROMPT = "ping"
_NAMES = re.compile(r'"(?:id|name)"\s*:\s*"([^"\\]{1,200})"')


def asked(spec: LlmSpec, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The request, the key masked."""
    method, path, body = _request(spec)
    told = {"method": method, "address": web.shown(spec.url.rstrip("/") + path, secrets)}
    headers = dict.fromkeys(_headers(spec, secrets), MASK) if secrets.get("api_key") else {}
    return told | {"headers": headers, "body_bytes": len(json.dumps(body)) if body else 0}


async def converse(
    spec: LlmSpec, secrets: Mapping[str, str], backend: GuardedBackend, found: Findings, time_limit_s: float
) -> None:
    """Ask once; no redirect is followed."""
    method, path, body = _request(spec)
    async with web.client(backend, time_limit_s) as http:
        url = httpx.URL(spec.url.rstrip("/") + path)
        request = http.build_request(method, url, headers=_headers(spec, secrets), json=body)
        async with web.exchange(http, request, found) as response:
            text = await web.read_body(response, found)
    if found.status is not None and found.status // 100 == 2:
        _understand(spec, text, found)


def _request(spec: LlmSpec) -> tuple[str, str, dict[str, Any] | None]:
    if spec.ask != COMPLETION:
        return "GET", "/models", None
    said = [{"role": "user", "content": PROMPT}]
    match spec.provider:
        case "anthropic":
            return "POST", "/messages", {"model": spec.model, "max_tokens": 1, "messages": said}
        case "gemini":
            contents = [{"role": "user", "parts": [{"text": PROMPT}]}]
            path = f"/models/{spec.model.removeprefix('models/')}:generateContent"
            return "POST", path, {"contents": contents, "generationConfig": {"maxOutputTokens": 1}}
        case "openai":
            return "POST", "/chat/completions", {"model": spec.model, "max_completion_tokens": 1, "messages": said}
    return "POST", "/chat/completions", {"model": spec.model, "max_tokens": 1, "messages": said}


def _headers(spec: LlmSpec, secrets: Mapping[str, str]) -> dict[str, str]:
    key = secrets.get("api_key", "")
    if not key:
        return {}
    match spec.provider:
        case "anthropic":
            return {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION}
        case "gemini":
            return {"x-goog-api-key": key}
    return {"Authorization": f"Bearer {key}"}


def _understand(spec: LlmSpec, text: str, found: Findings) -> None:
    """A page that somebody else serves with 200 is neither a list of models nor a completion."""
    wanted = "a completion" if spec.ask == COMPLETION else "a list of models"
    names = _listed(text, found.seen.cut)
    fits = _is_object(text, "choices", "content", "candidates") if spec.ask == COMPLETION else names is not None
    if not fits:
        raise Unmet("answer", wanted, "something else")
    found.seen.listed = names


def _listed(text: str, cut: bool) -> frozenset[str] | None:
    if not (cut or _is_object(text, "data", "models")):
        return None
    names = _NAMES.findall(text)
    return frozenset(names) | {each.removeprefix("models/") for each in names}


def _is_object(text: str, *one_of: str) -> bool:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and any(isinstance(answer.get(name), list) for name in one_of)
