"""The address of every page and every sheet, as they stand in the middle of the bad night."""

from __future__ import annotations

from django.urls import reverse

from controlplane import clock
from controlplane.models import (
    AgentKey,
    AlertCause,
    AlertChannel,
    AlertDelivery,
    AllowedNetwork,
    PolicyRevision,
    ProbeTest,
    ToolChange,
    Trip,
    Worker,
)
from controlplane.services import probes, reviews, tool_reviews
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
        "tool-review": reverse("dashboard:tool-review", args=["prod", eased(cast).pk]),
        "tool-with-review": "/tools/prod/refund/",
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


def sheets(cast: Cast) -> dict[str, str]:
    """What opens over a page, each at the address that it has without JavaScript."""
    return _deeds() | _judging() | _of_tools() | _alerting() | _people(cast) | _claims(cast) | _environment(cast)


def _deeds() -> dict[str, str]:
    circuit = "/circuits/prod/{}/{}/".format
    return {
        "hold-closed": circuit("search-api", "hold-closed"),
        "acknowledge": circuit("search-api", "acknowledge"),
        "probe-now": circuit("search-api", "probe-now"),
        "release": circuit("crm-db", "release"),
        "hand-back": circuit("payments", "hand-back"),
        "vendor-status": circuit("search-api", "vendor-status"),
        "remove-probe": reverse("dashboard:remove-probe", args=["prod", "search-api"]),
    }


def _judging() -> dict[str, str]:
    trips = Trip.objects.filter(environment__slug="prod")
    marked, other = trips.filter(false_trip_at__isnull=False).latest("at"), trips.filter(scope="fleet").latest("at")
    return {
        "mark-false": reverse("dashboard:mark-false", args=[other.pk]),
        "unmark-false": reverse("dashboard:unmark-false", args=[marked.pk]),
    }


def _of_tools() -> dict[str, str]:
    return {
        "edit-tool": reverse("dashboard:edit-tool", args=["prod", "web_search"]),
        "confirm-class": reverse("dashboard:confirm-class", args=["prod", "export_all_rows"]),
        "propose-tool": f"{reverse('dashboard:propose-tool', args=['prod', 'refund'])}?side_effect=read_only",
        "remove-tool": reverse("dashboard:remove-tool", args=["prod", "export_all_rows"]),
    }


def _alerting() -> dict[str, str]:
    channel = AlertChannel.objects.filter(environment__slug="prod").latest("pk")
    given_up = AlertDelivery.objects.filter(status="dead").latest("created_at")
    told = AlertCause.objects.filter(kind="heartbeat_failing").latest("pk")
    names, taking = ("edit-channel", "test-channel", "remove-channel"), ("acknowledge-alerts", "hand-back-alerts")
    return {name: reverse(f"dashboard:{name}", args=["prod", channel.pk]) for name in names} | {
        "add-channel": reverse("dashboard:add-channel", args=["prod"]),
        **{name: f"{reverse(f'dashboard:{name}', args=['prod'])}?causes={told.pk}" for name in taking},
        "resend": reverse("dashboard:resend", args=["prod", given_up.pk]),
    }


def _people(cast: Cast) -> dict[str, str]:
    names = ("change-role", "switch-person", "new-password")
    return {name: reverse(f"dashboard:{name}", args=[cast.otto.pk]) for name in names} | {
        "add-person": reverse("dashboard:add-person")
    }


def _claims(cast: Cast) -> dict[str, str]:
    held = Worker.objects.filter(environment=cast.prod, quarantined_at__isnull=False).latest("pk")
    leaked = AgentKey.objects.get(environment=cast.prod, quarantined_at__isnull=False)
    keys = [("quarantine-key", cast.support_key), ("lift-key", leaked), ("revoke-key", cast.support_key)]
    workers = [("quarantine-worker", cast.workers[0]), ("lift-worker", held)]
    return {name: reverse(f"dashboard:{name}", args=["prod", row.pk]) for name, row in keys + workers} | {
        "issue-key": reverse("dashboard:issue-key", args=["prod"])
    }


def _environment(cast: Cast) -> dict[str, str]:
    names = ("add-agent", "protection", "remove-environment", "allow-network", "control-address")
    return {name: reverse(f"dashboard:{name}", args=["prod"]) for name in names} | {
        "remove-agent": reverse("dashboard:remove-agent", args=["prod", "nightly"]),
        "close-network": reverse("dashboard:close-network", args=["prod", AllowedNetwork.objects.latest("pk").pk]),
    }


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


def eased(cast: Cast) -> ToolChange:
    """A milder class of refund that waits for a second person."""
    return tool_reviews.propose(
        tool=cast.tools["refund"],
        wanted={"side_effect": "idempotent_write"},
        reason="the vendor takes the same refund twice as one since its last version",
        actor="petra",
        now=clock.now(),
    )
