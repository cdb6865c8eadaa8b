"""GET explain: where each value of a tool's policy comes from, for the key's own environment and nobody else's."""

import json
from datetime import timedelta

import pytest
from recloser import cli

from controlplane import clock
from controlplane.services import access, circuits, policies, tools
from tests.edge import harness


@pytest.fixture
def web_search(prod):
    now = clock.now()
    search = tools.ensure_dependency(environment=prod, slug="search-api", actor="ada", now=now)
    tools.ensure_tool(
        environment=prod, name="web_search", dependencies=["search-api"], actor="ada", now=now, side_effect="read_only"
    )
    policies.publish(
        environment=prod, level="dependency", dependency=search, values={"cooldown_s": 7}, reason="slow to mend",
        actor="petra", now=now,
    )  # fmt: skip
    return search


def test_each_value_says_which_layer_it_came_from(agent, web_search):
    told = agent.get("explain?tool=web_search").json()

    assert (told["environment"], told["agent"], told["known"]) == ("prod", "research", True)
    assert (told["side_effect"], told["confirmed"], told["handled_as"]) == ("read_only", True, "read_only")
    assert told["run"]["consecutive_failures"] == {"value": 5, "from": "class"}
    assert told["run"]["never_open"]["from"] == "default"
    (behind,) = told["dependencies"]
    assert behind["policy"]["cooldown_s"] == {"value": 7, "from": "dependency"}
    assert behind["circuit"] is None


def test_a_circuit_that_is_open_is_told_with_it(agent, prod, web_search):
    now = clock.now()
    until = now + timedelta(minutes=5)
    circuits.hold_open(dependency_id=web_search.pk, actor="otto", reason="drill", now=now, until=until)

    (behind,) = agent.get("explain?tool=web_search").json()["dependencies"]

    assert behind["circuit"]["mode"] == "forced_open"


def test_a_misspelt_name_gets_the_defaults_and_what_was_perhaps_meant(agent, web_search):
    told = agent.get("explain?tool=web_serch").json()

    assert (told["known"], told["near"], told["handled_as"]) == (False, "web_search", "unknown")
    assert told["run"]["consecutive_failures"] == {"value": 3, "from": "class"}
    assert told["dependencies"][0]["name"] == "web_serch"


def test_a_tool_of_another_environment_is_not_known(agent, staging):
    tools.ensure_dependency(environment=staging, slug="vault", actor="ada", now=clock.now())
    tools.ensure_tool(
        environment=staging, name="open_vault", dependencies=["vault"], actor="ada", now=clock.now(), owner="secrets"
    )

    answer = agent.get("explain?tool=open_vault")

    assert answer.json()["known"] is False and answer.json()["near"] is None and "secrets" not in answer.text


MANY = "?tool=a" + "&b=c" * 8


@pytest.mark.parametrize("query", ["", "?tool=", "?tool=a&tool=b", "?tool=" + "x" * 201, "?tool=a%00b", MANY])
def test_a_query_that_names_no_tool_says_how_to_ask(agent, query):
    answer = agent.get(f"explain{query}")

    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == "tool" and "?tool=NAME" in answer.json()["error"]["mend"]


def test_nobody_asks_without_a_key(edge):
    assert edge.request("GET", "/agent/v1/explain?tool=web_search").status_code == 401


def test_the_command_line_against_a_real_server(servers, key, web_search, prod, monkeypatch, capsys, tmp_path):
    """check, status, explain and a key that is revoked, over the wire."""
    [server] = servers(1)
    monkeypatch.setenv("RECLOSER_URL", server.url)
    monkeypatch.setenv("RECLOSER_KEY", key.token)
    monkeypatch.setenv("RECLOSER_CACHE_DIR", str(tmp_path))
    now = clock.now()
    until = now + timedelta(minutes=5)
    circuits.hold_open(dependency_id=web_search.pk, actor="otto", reason="drill", now=now, until=until)

    def ran(*command):
        status = cli.main([*command, "--json"])
        return status, json.loads(capsys.readouterr().out)

    status, found = ran("check")
    assert (status, found["ok"], found["agent"]) == (0, True, "research")
    (one,) = ran("status")[1]["not_closed"]
    assert (one["dependency"], one["effective"], one["mode"], one["tripped_by"], one["tools"]) == (
        "search-api", "open", "forced_open", "operator", ["web_search"],
    )  # fmt: skip
    status, found = ran("explain", "web_search")
    assert (status, found["dependencies"][0]["policy"]["cooldown_s"]) == (0, {"value": 7, "from": "dependency"})
    assert ran("explain", "web_serch")[0] == 1

    access.revoke_key(key=key, actor="ann", now=clock.now())
    assert harness.until(lambda: ran("check")[0] == 4, what="the revocation")
