"""The hand on the clock: only where it is asked for, and refused where it could do harm."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from controlplane import checks, clock
from controlplane.edge import rehearsal
from controlplane.models import Circuit, Environment, Observation, ProbeRound
from controlplane.services import circuits, tools
from tests.edge import harness
from tests.edge.harness import failing, observation

BEGIN = "/test/v1/begin"


@pytest.fixture
def rehearsing(settings):
    """This process may move its clock; it goes on afterwards."""
    settings.TEST_CLOCK = True
    yield
    clock.hold(None)


@pytest.fixture
def hand(edge, key, rehearsing):
    """The hand on the clock of a fresh environment, and an agent in it."""
    return Hand(edge, key.token)


class Hand:
    def __init__(self, edge, token):
        begun = edge.request("POST", BEGIN, headers={"authorization": f"Bearer {token}"}).json()
        self.begins = begun["now"]
        self.agent = harness.Agent(edge, begun["key"], environment=begun["environment"])

    def ask(self, route, **asked):
        return self.agent.server.request("POST", f"/test/v1/{route}", json=asked, headers=self.agent.headers)

    def at(self, seconds):
        assert self.ask("clock", to=self.begins + seconds).status_code == 200


@pytest.mark.parametrize("route", ["begin", "clock", "policy", "look", "nothing"])
def test_without_the_switch_there_are_no_such_routes(edge, agent, route):
    answer = edge.request("POST", f"/test/v1/{route}", headers=agent.headers)

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_with_it_a_key_is_asked_for(edge, prod, rehearsing):
    assert edge.request("POST", BEGIN).status_code == 401
    assert Environment.objects.count() == 1


def test_each_case_begins_in_an_environment_of_its_own_at_a_full_hour(hand):
    begun = datetime.fromtimestamp(hand.begins, UTC)

    assert (begun.minute, begun.second, begun.microsecond) == (0, 0, 0)
    assert Environment.objects.exclude(slug="prod").get().slug == hand.agent.environment
    assert clock.now() == begun


def test_edge_services_and_documents_read_one_clock(hand):
    hand.at(3)

    answer = hand.agent.send(observation())

    assert answer["now"] == hand.begins + 3
    assert hand.agent.get("circuits").json()["now"] == hand.begins + 3
    stored = Observation.objects.get()
    assert stored.received_at == clock.now() == datetime.fromtimestamp(hand.begins + 3, UTC)
    hand.at(60)
    assert hand.agent.get("circuits").json()["now"] == hand.begins + 60
    assert hand.agent.stream().events.next("circuits")["now"] == hand.begins + 60


def test_a_step_begins_when_what_a_batch_caused_has_ended(hand):
    hand.ask("names", dependencies=["search-api"], tools={"web_search": ["search-api"]})
    values = {"min_calls": 2, "min_workers": 1, "settle_s": 0}
    assert hand.ask("policy", level="dependency", owner="search-api", values=values).status_code == 200

    hand.agent.send(failing(5))
    looked = hand.ask("look").json()

    assert looked["alerts"] == 1
    assert Circuit.objects.get(dependency__slug="search-api").opened_at == clock.now()


def test_it_lets_the_clock_go(hand):
    hand.at(-86_400)

    hand.ask("end")

    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        assert abs(clock.now() - cursor.fetchone()[0]) < timedelta(seconds=10)


@pytest.mark.parametrize(
    ("route", "asked", "code"),
    [
        ("clock", {"to": "noon"}, "bad_field"),
        ("clock", {"tto": 3}, "bad_field"),
        ("policy", {"level": "dependency", "owner": "none", "values": {}}, "bad_field"),
        ("policy", {"level": "environment", "values": {"circuit": {"luck": 3}}}, "bad_field"),
        ("operate", {"dependency": "none", "verb": "force_close"}, "bad_field"),
        ("probe", {"dependency": "none"}, "bad_field"),
        ("dance", {}, "not_found"),
    ],
)
def test_what_it_cannot_do_it_says(hand, route, asked, code):
    assert hand.ask(route, **asked).json()["error"]["code"] == code


@pytest.mark.parametrize(
    ("route", "asked"), [("clock", {"jump_s": 3600}), ("look", {}), ("end", {}), ("store-loss", {})]
)
def test_an_ordinary_key_may_only_begin(hand, agent, route, asked):
    before = clock.now()

    answer = agent.server.request("POST", f"/test/v1/{route}", json=asked, headers=agent.headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_on_stage")
    assert clock.now() == before


def test_a_key_leaves_the_stage_when_another_case_begins(hand, edge, key):
    Hand(edge, key.token)

    assert hand.ask("look").status_code == 403


def test_a_round_of_another_environment_is_unknown(hand, edge, key):
    hand.ask("names", dependencies=["search-api"], tools={})
    hand.ask("operate", dependency="search-api", verb="force_open", until=hand.begins + 60)
    hand.at(61)
    theirs = hand.ask("probe", dependency="search-api").json()["round"]
    other = Hand(edge, key.token)

    answer = other.ask("probe", round=theirs, verdict="good")

    assert theirs
    assert answer.status_code == 422
    assert ProbeRound.objects.get(pk=theirs).finished_at is None


def test_a_turn_is_taken_in_its_own_environment_alone(hand, prod):
    dependency = tools.ensure_dependency(environment=prod, slug="mail-api", actor="ada", now=clock.now())
    until = clock.now() + timedelta(minutes=5)
    circuits.hold_open(dependency_id=dependency.pk, actor="otto", reason="drill", now=clock.now(), until=until)

    hand.at(3600)

    assert Circuit.objects.get(dependency=dependency).mode == "forced_open"


@pytest.fixture
def database(monkeypatch):
    """The database's name, as far as anyone asks."""
    return lambda name: monkeypatch.setitem(connection.settings_dict, "NAME", name)


@pytest.mark.parametrize(
    ("name", "switches", "refused"),
    [
        ("recloser", {"TEST_CLOCK": True}, True),
        ("recloser", {"TEST_CLOCK": True, "DEBUG": True}, True),
        ("recloser", {}, False),
        ("test_recloser", {"TEST_CLOCK": True}, False),
    ],
)
def test_production_refuses_to_start_with_it(settings, database, name, switches, refused):
    database(name)
    for switch, on in switches.items():
        setattr(settings, switch, on)

    found = checks.test_clock(None)

    assert [each.id for each in found] == (["recloser.E008"] if refused else [])
    if refused:
        with pytest.raises(ImproperlyConfigured, match="RECLOSER_TEST_CLOCK"):
            rehearsal.demand_leave()
        with pytest.raises(ImproperlyConfigured):
            clock.hold(datetime.now(UTC))


def test_without_the_switch_nobody_can_hold_the_clock():
    with pytest.raises(ImproperlyConfigured):
        clock.hold(datetime.now(UTC))
