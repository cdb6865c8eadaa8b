"""Where a probe is asked from: in its editor, and each place's vote in the log."""

import uuid
from datetime import timedelta

from django.urls import reverse

from controlplane.models import Probe, ProbeRound, ProbeVote
from tests.conftest import NOON
from tests.dashboard import stage

CRM = {
    "kind": "http",
    "url": "https://crm.internal/health",
    "method": "GET",
    "redirects": "never",
    "operation": "search",
}


def editor(client, **more):
    return client.post(reverse("dashboard:probe", args=["prod", "search-api"]), CRM | {"enabled": "on"} | more)


def test_an_inside_host_is_saved_for_agents_and_refused_to_the_control_plane(as_, cast):
    client = as_(cast.otto)
    assert editor(client, ask_from="control_plane").status_code == 422
    assert editor(client, ask_from="agents").status_code == 302
    assert Probe.objects.get().ask_from == "agents"
    shown = client.get(reverse("dashboard:probe", args=["prod", "search-api"])).content.decode()
    assert '<option value="agents" selected>' in shown


def test_a_probe_with_a_secret_is_refused_to_agents_at_the_field(as_, cast):
    answer = editor(as_(cast.otto), ask_from="agents", secret_name_0="Authorization", secret_value_0="Bearer s3cret")
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "id_ask_from_error" in text and "o secret is ever sent to an agent" in text
    assert "s3cret" not in text


def test_the_log_shows_each_place_and_that_there_were_too_few(as_, cast):
    row = stage.opened(cast.search_api, NOON - timedelta(seconds=60))
    kept = ProbeRound.objects.create(
        id=uuid.uuid4(), circuit=row, generation=1, due_at=NOON, granted_at=NOON, lease_expires_at=NOON,
        finished_at=NOON, verdict="bad", applied=True, answered={"cause": "status"}, places_wanted=3, quorum=2,
    )  # fmt: skip
    common = {"round": kept, "voted_at": NOON}
    ProbeVote.objects.create(id=uuid.uuid4(), place="eu", verdict="good", answered={"cause": "passed"}, **common)
    hostile = "research/<b>pod</b>"
    ProbeVote.objects.create(
        id=uuid.uuid4(), place=hostile, by_agent=True, verdict="bad", answered={"cause": "connect"}, **common
    )
    text = as_(cast.ann).get(reverse("dashboard:circuit", args=["prod", "search-api"])).content.decode()

    assert "2 of 2 had to agree; 3 places are wanted" in text
    assert "eu</span>: passed" in text
    assert "research/&lt;b&gt;pod&lt;/b&gt;</span>: failed" in text and "no connection" in text
