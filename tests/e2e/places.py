"""The address of every page, as it stands in the middle of the bad night."""

from __future__ import annotations

from django.urls import reverse

from controlplane import clock
from controlplane.models import PolicyRevision, ProbeTest, Trip
from controlplane.services import probes, reviews
from tests.e2e import story
from tests.factories import Cast


def pages(cast: Cast) -> dict[str, str]:
    """By name; the night must have been played."""
    run = story.brief(cast)
    trip = Trip.objects.filter(scope="fleet", dependency=cast.search_api).latest("at")
    found = {
        "board": "/?environment=prod",
        "circuit": "/circuits/prod/search-api/",
        "force-close": "/circuits/prod/search-api/force-close/",
        "hold-open": "/circuits/prod/search-api/hold-open/",
        "probe": "/circuits/prod/search-api/probe/",
        "probe-steps": "/circuits/prod/search-api/probe/?kind=steps",
        "probe-llm": "/circuits/prod/search-api/probe/?kind=llm",
        "probe-test": reverse("dashboard:probe-test", args=["prod", "search-api", tried(cast).pk]),
        "circuit-policy": "/circuits/prod/search-api/policy/",
        "trips": "/trips/?environment=prod",
        "trip": reverse("dashboard:trip", args=[trip.pk]),
        "runs": "/runs/?environment=prod",
        "run": reverse("dashboard:run", args=[run.pk]),
        "why": reverse("dashboard:why", args=[run.pk, "web_search"]),
        "tools": "/tools/?environment=prod",
        "tool": "/tools/prod/web_search/",
        "tool-policy": "/tools/prod/web_search/policy/",
        "reviews": "/reviews/?environment=prod",
        "review": reverse("dashboard:review", args=["prod", proposed(cast).pk]),
        "alerts": "/alerts/?environment=prod",
        "settings": "/settings/?environment=prod",
        "people": "/settings/people/?environment=prod",
        "audit": "/settings/audit/?environment=prod",
        "layers": "/policies/prod/",
        "layer-policy": "/policies/prod/environment/run/",
        "find": "/find/?environment=prod&q=search",
        "shortcuts": "/shortcuts/",
        "styleguide": "/styleguide/",
        "note": "/circuits/prod/search-api/note/",
        "missing": "/circuits/prod/serch-api/",
    }
    return found


def tried(cast: Cast) -> ProbeTest:
    """A try-out of a probe that has come to an end."""
    now = clock.now()
    test = ProbeTest.objects.create(
        id="5f4dcc3b-5aa7-65d6-1d83-27deb882cf99", dependency=cast.search_api, asked_by="otto", asked_at=now,
        spec={"url": "https://search.example.com/health", "method": "GET"},
    )  # fmt: skip
    answered = {
        "status": 200, "took_ms": 212.0, "address": "203.0.113.9", "cause": "body", "detail": "",
        "conditions": [
            {"name": "status", "expected": "200-299", "seen": "200", "held": True},
            {"name": "latency", "expected": "800 ms", "seen": "212 ms", "held": True},
            {"name": "body", "expected": "$.index.ready = true", "seen": "false", "held": False},
        ],
    }  # fmt: skip
    asked = {"method": "GET", "address": "https://search.example.com/health",
             "headers": {"Accept": "application/json", "Authorization": "••••••"}}  # fmt: skip
    result = {"asked": asked, "answered": answered, "verdict": "bad"}
    probes.finish_test(test_id=test.pk, result=result, now=now)
    return test


def proposed(cast: Cast) -> PolicyRevision:
    """A change of refund's policy that waits for a second person."""
    return reviews.propose(
        environment=cast.prod,
        level="tool",
        tool=cast.tools["refund"],
        values={"consecutive_failures": 4, "model_text": "Tell the customer that a colleague will pay it back today."},
        reason="the payment vendor drops one call in three on Mondays",
        actor="petra",
        now=clock.now(),
    )
