"""What operators and product owners would have set up in daylight: tools, policies, a probe. Idempotent.

python -m demo.seed --vendor http://127.0.0.1:9001      prints a new agent key, and nothing else
"""

import argparse
import os
from datetime import datetime
from typing import Any

from demo import cast

ACTOR = "demo"
POLICY = {
    "window_s": 15.0,
    "min_calls": 10,
    "cooldown_s": 5.0,
    "cooldown_max_s": 10.0,
    "probe_timeout_s": 3.0,
    "worker_cooldown_s": 5.0,
}
"""As hasty as the sixtyfold history."""
INSTEAD = {
    "get_rating_reviews_for_hotels": "partial_answer",
    "get_hotels_prices": "partial_answer",
    "get_all_hotels_in_city": "ask_user",
    "reserve_hotel": "escalate",
}
"""The product owner's decisions; the other tools are undecided, and the dashboard says so."""


def main() -> None:
    """Set the stage in the database that DATABASE_URL names."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--vendor", required=True)
    vendor = options.parse_args().vendor
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django

    django.setup()
    print(seed(vendor))


def seed(vendor: str) -> str:
    """Write everything through the services; returns a new agent key."""
    from controlplane import clock
    from controlplane.models import Agent, Environment
    from controlplane.services import access, egress, policies, probes

    now = clock.now()
    environment = Environment.objects.get(slug=cast.ENVIRONMENT)
    agent, _ = Agent.objects.get_or_create(
        environment=environment, slug=cast.AGENT, defaults={"name": "Travel planner", "created_at": now}
    )
    dependencies = _tools(environment, now)
    policies.publish(
        environment=environment,
        level="environment",
        values={"circuit": POLICY},
        reason="As hasty as the demo's history",
        actor=ACTOR,
        now=now,
    )
    egress.allow_network(network="127.0.0.0/8", reason="The demo's vendor is on this machine", actor=ACTOR, now=now)
    probes.save_probe(
        dependency=dependencies[cast.OUTAGE_AT],
        operation="hotels",
        spec={"url": f"{vendor}/{cast.OUTAGE_AT}/get_all_hotels_in_city?outcome=ok&result=probe", "time_limit_s": 2.0},
        actor=ACTOR,
        now=now,
    )
    _, shown_once = access.issue_key(environment=environment, agent=agent, label="demo", actor=ACTOR, now=now)
    return shown_once


def _tools(environment: Any, now: datetime) -> dict[str, Any]:
    """Every recorded tool with its class, its dependency and what runs do without it."""
    from controlplane.services import policies, tools

    dependencies = {
        slug: tools.ensure_dependency(
            environment=environment, slug=slug, actor=ACTOR, now=now, owner="travel platform team"
        )
        for slug in dict.fromkeys(cast.DEPENDENCY_OF.values())
    }
    for name, slug in cast.DEPENDENCY_OF.items():
        tool = tools.ensure_tool(
            environment=environment,
            name=name,
            dependencies=[slug],
            side_effect=cast.SIDE_EFFECT.get(name, "read_only"),
            operation="hotels" if slug == cast.OUTAGE_AT else "",
            owner="travel platform team",
            actor=ACTOR,
            now=now,
        )
        if behaviour := INSTEAD.get(name):
            policies.publish(
                environment=environment,
                level="tool",
                tool=tool,
                values={"degraded_behaviour": behaviour},
                reason="Decided before the first outage",
                actor=ACTOR,
                now=now,
            )
    return dependencies


if __name__ == "__main__":
    main()
