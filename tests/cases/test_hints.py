"""What a tool says of itself, from an agent's array to the page of an operator: a claim, and no class."""

from __future__ import annotations

import json

import pytest
from recloser import cli

from controlplane.models import Tool, ToolHints
from tests import factories

READS = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": True}


@pytest.fixture
def told(fleet, agent):
    """`told(name=hints, ...)`: a run is shown these tools and calls each; what came of it is stored."""

    def tell(**hints):
        client = agent("pod-1")
        with client.run() as run:
            run.step()
            run.tools([{"name": name, "annotations": each} for name, each in hints.items()])
            for name in hints:
                run.call(name, {}, lambda: "found")
        assert client.flush(10)
        return {row.name: row for row in Tool.objects.filter(name__in=hints)}

    return tell


def test_hints_reach_the_page_as_claims_and_never_make_a_proposal_milder(fleet, told, page):
    """C: an array with hints is shown; R: each page shows the claim; proposals are as strict as name and hints say."""
    rows = told(
        delete_repo=READS, get_page={"readOnlyHint": False, "destructiveHint": True}, frobnicate=READS, get_plain={}
    )

    assert {(row.side_effect, row.class_confirmed) for row in rows.values()} == {("unknown", False)}
    shown = {name: page(fleet.petra, f"/tools/prod/{name}/") for name in rows}
    claim = "readOnlyHint true, destructiveHint false, openWorldHint true"
    assert claim in shown["delete_repo"] and "Its name suggests: destructive" in shown["delete_repo"]
    assert "Its own hints suggest: destructive" in shown["get_page"]
    assert (
        claim in shown["frobnicate"] and "suggest" not in shown["frobnicate"].split('id="claims"')[0].split("<main")[1]
    )
    assert "What it says of itself" not in shown["get_plain"]
    assert "Its name suggests: read only" in shown["get_plain"]


def test_explain_at_a_terminal_tells_claims_and_proposal(told, server, monkeypatch, capsys):
    told(get_page={"readOnlyHint": False})
    monkeypatch.setenv("RECLOSER_URL", server.url)
    monkeypatch.setenv("RECLOSER_KEY", factories.RESEARCH_TOKEN)

    assert cli.main(["explain", "get_page"]) == 0
    out = capsys.readouterr().out
    assert cli.main(["explain", "get_page", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert "its hints suggest side_effect (readOnlyHint false)" in out
    assert "as research tells it, it says: readOnlyHint false (a claim)" in out
    assert found["proposal"] == {"side_effect": "side_effect", "by": "hints", "because": "readOnlyHint false"}
    assert found["hints"] == [{"agent": "research", "readOnlyHint": False}]
    assert (found["side_effect"], found["confirmed"], found["handled_as"]) == ("unknown", False, "unknown")


def test_a_later_word_of_an_agent_replaces_its_earlier_one(told):
    told(frobnicate=READS)
    told(frobnicate=READS)
    first = ToolHints.objects.get()
    told(frobnicate={"destructiveHint": True})

    assert first.stated() == READS
    assert ToolHints.objects.get().stated() == {"destructiveHint": True}


def test_a_confirmed_class_stands_and_hints_that_claim_a_stricter_one_are_shown(fleet, told, page):
    told(web_search={"readOnlyHint": False, "destructiveHint": True}, db_lookup=READS)

    shown = page(fleet.petra, "/tools/prod/web_search/")

    assert Tool.objects.get(name="web_search", environment=fleet.prod).side_effect == "read_only"
    assert "Confirmed as read only, but its hints now say destructive" in " ".join(shown.split())
    assert "but its hints now say" not in page(fleet.petra, "/tools/prod/db_lookup/")
