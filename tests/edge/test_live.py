"""GET /live: signals for signed-in people, and for nobody else."""

from datetime import timedelta

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session as SignIn
from django.db import OperationalError
from django.test import Client

from controlplane import clock, redis_clients
from controlplane.delivery import hub, publish, versions
from controlplane.edge import sign_ins
from controlplane.models import Environment, User
from controlplane.services import circuits, tools
from tests.edge import harness


@pytest.fixture
def cookie(prod):
    """Ann's, who may view."""
    return _signed_in("ann")


def _signed_in(name):
    client = Client()
    client.force_login(User.objects.create_user(name, role="viewer"), backend="controlplane.permissions.RoleBackend")
    return {"cookie": f"sessionid={client.cookies['sessionid'].value}"}


def _hold_open(environment, slug="search-api"):
    now = clock.now()
    dependency = tools.ensure_dependency(environment=environment, slug=slug, actor="ada", now=now)
    until = now + timedelta(minutes=5)
    circuits.hold_open(dependency_id=dependency.pk, actor="otto", reason="drill", now=now, until=until)


@pytest.mark.parametrize("query", ["", "?environment=prod"])
def test_a_transition_is_signalled(edge, prod, cookie, query):
    stream = edge.stream(f"/live{query}", cookie)
    before = stream.events.next("changed")["version"]

    _hold_open(prod)

    harness.until(lambda: stream.events.next("changed", within=2.5)["version"] > before)


def test_a_page_of_an_environment_that_is_not_known_yet_hears_its_first_change(edge, cookie):
    edge.stream("/live", cookie).events.next("changed")
    young = Environment.objects.create(slug="young", name="Young", created_at=clock.now())
    stream = edge.stream("/live?environment=young", cookie)
    before = stream.events.next("changed")["version"]

    _hold_open(young)

    version = versions.of(young.pk).circuits
    assert version > before
    harness.until(lambda: stream.events.next("changed", within=2.5)["version"] == version)


def test_another_environment_does_not_wake_the_page(edge, prod, staging, cookie):
    stream = edge.stream("/live?environment=prod", cookie)
    stream.events.next("changed")

    _hold_open(staging)

    with pytest.raises(AssertionError, match="no event"):
        stream.events.next("changed", within=1.5)


def test_a_page_hears_the_version_that_the_document_has(edge, prod, agent, cookie):
    stream = edge.stream("/live?environment=prod", cookie)
    stream.events.next("changed")

    _hold_open(prod)

    version = agent.get("circuits").json()["version"]
    harness.until(lambda: stream.events.next("changed", within=2.5)["version"] == version)


def test_a_trip_inside_an_agent_is_signalled_though_no_version_tells_it(edge, prod, agent, cookie):
    stream = edge.stream("/live?environment=prod", cookie)
    before = stream.events.next("changed")

    agent.send(trips=[harness.trip()])

    news = harness.until(lambda: _news(stream, before["activity"]), what="the news")
    assert "version" not in news, "a page would take it for no newer than itself"


@pytest.mark.parametrize("query", ["", "?environment=prod"])
def test_a_run_is_signalled(edge, prod, agent, cookie, query):
    stream = edge.stream(f"/live{query}", cookie)
    before = stream.events.next("changed")

    agent.send(runs=[harness.run()])

    assert harness.until(lambda: _news(stream, before["activity"]), what="the news")


def _news(stream, seen):
    told = stream.events.next("changed", within=2.5)
    return told if told["activity"] > seen else None


def test_a_repeated_batch_is_no_news(edge, prod, agent, cookie):
    batch = agent.batch(runs=[harness.run()])
    agent.post(batch)
    stream = edge.stream("/live?environment=prod", cookie)
    harness.until(lambda: stream.events.next("changed", within=5)["activity"] == 1)

    agent.post(batch)

    with pytest.raises(AssertionError, match="no event"):
        stream.events.next("changed", within=1.3)


def test_news_are_signalled_once_a_second_however_many_come(edge, prod, agent, cookie, monkeypatch):
    monkeypatch.setattr(hub, "BETWEEN_NEWS_S", 30.0)
    stream = edge.stream("/live?environment=prod", cookie)
    before = stream.events.next("changed")["activity"]

    for _ in range(10):
        agent.send(runs=[harness.run()])

    assert stream.events.next("changed", within=2.0)["activity"] == before + 1
    with pytest.raises(AssertionError, match="no event"):
        stream.events.next("changed", within=0.8)


def test_news_reach_the_pages_of_another_process(edge, prod, agent, cookie):
    assert agent.get("config").status_code == 200
    other = harness.InProcess()
    try:
        stream = other.stream("/live?environment=prod", cookie)
        before = stream.events.next("changed")["activity"]
        harness.until(lambda: _heard() == 2, what="both subscriptions")

        agent.send(trips=[harness.trip()])

        assert harness.until(lambda: _news(stream, before), what="the news")
    finally:
        other.close()


def _heard():
    [(_, listeners)] = redis_clients.blocking().pubsub_numsub(publish.CHANNEL)
    return listeners


def test_news_of_another_environment_do_not_wake_the_page(edge, prod, staging, agent, cookie):
    stream = edge.stream("/live?environment=staging", cookie)
    stream.events.next("changed")

    agent.send(trips=[harness.trip()])

    with pytest.raises(AssertionError, match="no event"):
        stream.events.next("changed", within=1.3)


def test_signals_are_at_most_four_a_second(edge, prod, cookie):
    stream = edge.stream("/live", cookie)
    stream.events.next("changed")
    began = clock.now()

    for number in range(20):
        _hold_open(prod, f"api-{number}")

    took = (clock.now() - began).total_seconds()
    heard = 0
    with pytest.raises(AssertionError, match="no event"):
        while stream.events.next("changed", within=1.2):
            heard += 1
    assert 1 <= heard <= 4 * (took + 1.0)


@pytest.mark.parametrize("headers", [{}, {"cookie": "sessionid=nonsense"}, {"cookie": "other=1"}])
def test_without_a_session_there_is_nothing(edge, prod, headers):
    assert edge.stream("/live", headers).status == 401


def test_an_inactive_person_gets_nothing(edge, cookie):
    User.objects.update(is_active=False)

    assert edge.stream("/live", cookie).status == 401


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_another_site_is_refused(edge, cookie, headers):
    assert edge.stream("/live", {**cookie, **headers}).status == 403


def test_the_dashboards_own_origin_is_answered(edge, cookie):
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}

    assert edge.stream("/live", {**cookie, **headers}).status == 200


def test_another_host_name_is_refused(edge, cookie):
    answer = edge.request("GET", "/live", headers={**cookie, "host": "evil.example"})

    assert answer.status_code == 400


def test_an_environment_that_is_not_there_is_said_so(edge, cookie):
    assert edge.stream("/live?environment=prdo", cookie).status == 404


def test_signing_out_ends_the_stream(edge, cookie, monkeypatch):
    monkeypatch.setattr(sign_ins, "CHECK_S", 0.05)
    stream = edge.stream("/live", cookie)
    stream.events.next("changed")

    SignIn.objects.all().delete()

    assert stream.events.ended(within=10)


@pytest.mark.parametrize("change", [{"is_active": False}, {"role": "nobody"}, {"password": "another"}])
def test_a_person_who_may_no_longer_view_hears_no_more_and_others_go_on(edge, prod, cookie, change, monkeypatch):
    monkeypatch.setattr(sign_ins, "CHECK_S", 0.05)
    hers = edge.stream("/live", cookie)
    bens = edge.stream("/live", _signed_in("ben"))
    hers.events.next("changed")
    before = bens.events.next("changed")["version"]

    User.objects.filter(username="ann").update(**change)

    assert hers.events.ended(within=10)
    _hold_open(prod)
    harness.until(lambda: bens.events.next("changed", within=2.5)["version"] > before)


def test_pages_go_on_while_sign_ins_cannot_be_read(edge, prod, cookie, monkeypatch):
    monkeypatch.setattr(sign_ins, "CHECK_S", 0.05)
    looked = []
    monkeypatch.setattr(sign_ins, "still_viewing", lambda *asked: looked.append(asked) or _away())
    stream = edge.stream("/live", cookie)
    before = stream.events.next("changed")["version"]
    harness.until(lambda: len(looked) > 2, what="looks")

    _hold_open(prod)

    harness.until(lambda: stream.events.next("changed", within=2.5)["version"] > before)


def _away():
    raise OperationalError("gone")


def test_a_look_asks_for_all_at_once_and_looks_closer_only_where_something_changed(prod, django_assert_num_queries):
    cookies = [_signed_in(f"person{number}")["cookie"].partition("=")[2] for number in range(5)]
    asked = [sign_ins.viewer(cookie) for cookie in cookies]
    User.objects.filter(username="person3").update(role="on_call")

    with django_assert_num_queries(2 + 3):
        assert set(sign_ins.still_viewing(asked)) == set(cookies)


@pytest.mark.parametrize("failure", [OperationalError("gone"), RuntimeError("not foreseen")])
def test_a_look_that_fails_is_made_again(edge, cookie, monkeypatch, failure):
    monkeypatch.setattr(sign_ins, "CHECK_S", 0.05)
    real, failed = sign_ins.still_viewing, []

    def look(asked):
        if len(failed) < 3:
            failed.append(asked)
            raise failure
        return real(asked)

    monkeypatch.setattr(sign_ins, "still_viewing", look)
    stream = edge.stream("/live", cookie)
    stream.events.next("changed")
    SignIn.objects.all().delete()

    assert stream.events.ended(within=10)
    assert len(failed) == 3


def test_a_sign_in_whose_time_is_over_ends_its_stream(edge, cookie, monkeypatch):
    monkeypatch.setattr(sign_ins, "CHECK_S", 0.05)
    stream = edge.stream("/live", cookie)
    stream.events.next("changed")

    SignIn.objects.update(expire_date=clock.now() - timedelta(seconds=1))

    assert stream.events.ended(within=10)


def test_a_sign_in_that_changed_and_still_holds_keeps_its_stream(edge, prod, cookie, monkeypatch):
    monkeypatch.setattr(sign_ins, "CHECK_S", 0.05)
    stream = edge.stream("/live", cookie)
    before = stream.events.next("changed")["version"]
    judged, real = [], sign_ins.viewer
    monkeypatch.setattr(sign_ins, "viewer", lambda cookie: judged.append(cookie) or real(cookie))

    store = SessionStore(cookie["cookie"].partition("=")[2])
    store["seen"] = "a note"
    store.save()
    harness.until(lambda: judged, what="another judgement")
    _hold_open(prod)

    harness.until(lambda: stream.events.next("changed", within=2.5)["version"] > before)


def test_a_page_that_does_not_read_is_ended_with_its_sign_in(edge, cookie, monkeypatch):
    monkeypatch.setattr(sign_ins, "CHECK_S", 0.05)
    stuck = edge.stream("/live", cookie, reading=False)
    assert stuck.status == 200

    SignIn.objects.all().delete()

    harness.until(lambda: stuck.over, within=10, what="the end")


def test_a_page_that_does_not_read_is_cut_and_keeps_nobody_waiting(edge, prod, cookie, monkeypatch):
    monkeypatch.setattr(hub, "QUEUED", 2)
    stuck, quick = (edge.stream("/live?environment=prod", cookie) for _ in range(2))
    for stream in (stuck, quick):
        stream.events.next("changed")
    stuck.read(False)

    for number in range(5):
        _hold_open(prod, f"api-{number}")
        _hears(quick, versions.of(prod.pk).circuits)

    harness.until(lambda: stuck.over, what="the cut")
    assert not quick.over


def test_a_page_that_reads_late_ends_at_what_the_others_know(edge, prod, agent, cookie):
    late, quick = (edge.stream("/live?environment=prod", cookie) for _ in range(2))
    before = late.events.next("changed")
    late.read(False)
    for number in range(3):
        _hold_open(prod, f"api-{number}")
        version = versions.of(prod.pk).circuits
        _hears(quick, version)
    agent.send(runs=[harness.run()])
    harness.until(lambda: _news(quick, before["activity"]), what="the news")

    late.read()

    _hears(late, version)
    assert late.events.next("changed") == {"activity": before["activity"] + 1}


def _hears(stream, version):
    harness.until(lambda: stream.events.next("changed").get("version") == version, what="the version")


def test_every_one_of_many_pages_hears_a_change(edge, prod, cookie):
    streams = [edge.stream("/live?environment=prod", cookie) for _ in range(200)]
    before = {stream.events.next("changed")["version"] for stream in streams}

    _hold_open(prod)

    version = versions.of(prod.pk).circuits
    assert version not in before
    for stream in streams:
        _hears(stream, version)


def test_a_sign_of_life_reaches_every_page(edge, prod, staging, cookie, monkeypatch):
    monkeypatch.setattr(hub, "HEARTBEAT_S", 0.2)
    places = ("/live", "/live?environment=prod", "/live?environment=staging")
    streams = [edge.stream(place, cookie) for place in places for _ in range(3)]

    for stream in streams:
        harness.until(lambda heard=stream.events: heard.comments >= 4, what="heartbeats")


def test_a_server_that_leaves_says_goodbye_to_pages(edge, cookie):
    stream = edge.stream("/live", cookie)
    stream.events.next("changed")

    edge.loop.loop.call_soon_threadsafe(edge.edge.hub.farewell)

    stream.events.next("bye")
    assert stream.events.ended()


def test_a_name_that_no_environment_can_have_is_not_found(edge, prod, cookie):
    answer = edge.request("GET", "/live?environment=%00", headers=cookie)

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_a_refusal_is_guarded_like_pages(edge):
    """A browser may be led to it."""
    for path in ("/live", "/agent/v1/nowhere"):
        answer = edge.request("GET", path)
        assert answer.status_code in (401, 404)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
