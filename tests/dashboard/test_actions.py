"""What an operator does to a circuit: who may, what it takes, what it says, and that twice is once."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.models import AuditEntry, Circuit, Transition
from tests.conftest import NOON
from tests.dashboard import stage

PART = {"HX-Request": "true", "HX-Current-URL": "http://testserver/?environment=prod"}
DEEDS = ("force-close", "hold-open", "hold-closed", "release", "probe-now", "acknowledge")


@pytest.fixture
def outage(cast):
    stage.probe(cast.search_api, NOON)
    for worker in cast.workers:
        stage.observed(worker, cast.tools["web_search"], NOON - timedelta(minutes=2), timeout=1)
    return stage.opened(cast.search_api, NOON - timedelta(seconds=60), due_in_s=90)


def address(deed, dependency="search-api", environment="prod"):
    return reverse("dashboard:action", args=[environment, dependency, deed])


def data(**more):
    return {"token": str(uuid.uuid4()), "reason": "vendor says it is back", **more}


def circuit(cast):
    return Circuit.objects.get(dependency=cast.search_api)


def test_force_close_closes_and_says_so(cast, outage, as_):
    answer = as_(cast.otto).post(address("force-close"), data(), headers=PART)

    assert answer.status_code == 200
    assert "search-api is closed, with fresh counters." in answer.content.decode()
    assert answer["HX-Trigger"] == "recloser:done"
    assert (circuit(cast).state, circuit(cast).mode) == ("closed", "auto")
    assert Transition.objects.latest("id").actor == "otto"


def test_without_javascript_it_leads_back_to_the_circuit(cast, outage, as_):
    answer = as_(cast.otto).post(address("force-close"), data(), follow=True)

    assert answer.redirect_chain == [(reverse("dashboard:circuit", args=["prod", "search-api"]), 302)]
    assert "search-api is closed, with fresh counters." in answer.content.decode()


@pytest.mark.parametrize(
    ("deed", "mode", "state"), [("hold-open", "forced_open", "open"), ("hold-closed", "forced_closed", "closed")]
)
def test_a_hold_has_an_end(cast, outage, as_, deed, mode, state):
    as_(cast.otto).post(address(deed), data(minutes="30"), headers=PART)

    row = circuit(cast)
    assert (row.mode, row.state) == (mode, state)
    assert row.mode_expires_at == NOON + timedelta(minutes=30)
    assert row.reason == "vendor says it is back"


def test_release_is_the_opposite_of_a_hold(cast, outage, as_):
    client = as_(cast.otto)
    client.post(address("hold-open"), data(minutes="30"), headers=PART)

    client.post(address("release"), data(), headers=PART)

    assert circuit(cast).mode == "auto"


def test_probe_now_makes_it_due(cast, outage, as_):
    as_(cast.otto).post(address("probe-now"), {"token": str(uuid.uuid4())}, headers=PART)

    assert circuit(cast).due_at == NOON


def test_acknowledge_names_who_is_on_it(cast, outage, as_):
    client = as_(cast.otto)

    client.post(address("acknowledge"), {"token": str(uuid.uuid4())}, headers=PART)

    assert circuit(cast).acknowledged_by == "otto"
    assert "Taken by" in client.get("/").content.decode()


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("name", ["ann", "petra"])
def test_who_may_not_is_refused_and_the_attempt_is_on_record(cast, outage, as_, deed, name):
    answer = as_(getattr(cast, name)).post(address(deed), data(minutes="30"))

    assert answer.status_code == 403
    assert circuit(cast).state == "open"
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target, entry.accepted) == (name, deed, "search-api", False)
    assert entry.environment_id == cast.prod.pk


def test_a_refusal_inside_a_page_is_a_note_that_says_how_to_mend_it(cast, outage, as_):
    answer = as_(cast.ann).post(address("force-close"), data(), headers=PART)

    assert answer.status_code == 403
    assert answer["HX-Retarget"] == "#notes"
    assert "Ask an admin" in answer.content.decode()


@pytest.mark.parametrize("deed", ["force-close", "hold-open", "hold-closed"])
def test_without_a_reason_nothing_happens_and_the_field_is_named(cast, outage, as_, deed):
    answer = as_(cast.otto).post(address(deed), data(reason="  ", minutes="30"), headers=PART)

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"reason"}
    assert 'id="id_reason_error"' in answer.content.decode()
    assert answer["HX-Retarget"] == "#sheet-in"
    assert circuit(cast).state == "open"


@pytest.mark.parametrize("minutes", ["", "0", "-5", "1441", "soon", "1e9"])
def test_a_hold_without_a_sensible_end_is_refused(cast, outage, as_, minutes):
    answer = as_(cast.otto).post(address("hold-open"), data(minutes=minutes))

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"minutes"}
    assert circuit(cast).mode == "auto"


@pytest.mark.parametrize("token", ["", "not-a-token"])
def test_a_form_without_its_token_is_refused(cast, outage, as_, token):
    answer = as_(cast.otto).post(address("force-close"), data(token=token))

    assert answer.status_code == 422
    assert "Open this form anew." in answer.content.decode()


def test_what_cannot_be_done_says_why(cast, as_):
    answer = as_(cast.otto).post(address("probe-now"), {"token": str(uuid.uuid4())}, headers=PART)

    assert answer.status_code == 409
    assert "No probe can start: closed" in answer.content.decode()
    assert answer["HX-Retarget"] == "#sheet-in"


@pytest.mark.case("D03")
def test_d03_a_double_click_is_one_deed_and_both_answers_are_the_same(cast, outage, as_):
    client, twice = as_(cast.otto), data()
    before = Transition.objects.count()

    first, second = (client.post(address("force-close"), twice, headers=PART) for _ in range(2))

    assert first.status_code == second.status_code == 200
    assert first.content == second.content
    assert Transition.objects.count() == before + 1
    assert AuditEntry.objects.filter(action="force_close", accepted=True).count() == 1


def test_the_form_says_what_follows(cast, outage, as_):
    page = as_(cast.otto).get(address("force-close")).content.decode()

    assert "3 workers of research" in page
    assert "will call search-api again" in page


def test_an_action_reaches_only_its_own_environment(cast, outage, as_):
    as_(cast.otto).post(address("hold-open", environment="staging"), data(minutes="30"))

    assert circuit(cast).mode == "auto"
    assert Circuit.objects.get(dependency=cast.staging_search_api).mode == "forced_open"


@pytest.mark.parametrize(
    ("environment", "dependency", "deed"),
    [("prod", "serch-api", "force-close"), ("nowhere", "search-api", "force-close"), ("prod", "search-api", "explode"),
     ("staging", "crm-db", "force-close")],
)  # fmt: skip
def test_a_misspelt_name_is_an_error(cast, outage, as_, environment, dependency, deed):
    assert as_(cast.otto).post(address(deed, dependency, environment), data()).status_code == 404


def test_an_action_wants_a_csrf_token(cast, outage):
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.otto, backend="controlplane.permissions.RoleBackend")

    answer = client.post(address("force-close"), data())

    assert answer.status_code == 403
    assert "too old" in answer.content.decode()
    assert circuit(cast).state == "open"


def test_without_a_probe_a_later_run_is_let_test_it_at_once(cast, as_):
    row = stage.opened(cast.search_api, NOON - timedelta(seconds=10), due_in_s=3000)
    client = as_(cast.otto)
    assert "Let a run test it now" in client.get("/", {"environment": "prod"}).content.decode()
    assert "The first call of a run that began after the opening" in client.get(address("probe-now")).content.decode()

    answer = client.post(address("probe-now"), {"token": str(uuid.uuid4())}, headers=PART)

    assert "search-api is due for its test at once." in answer.content.decode()
    row.refresh_from_db()
    assert row.due_at <= NOON


def test_where_nothing_can_test_it_the_page_says_so_and_offers_a_probe_alone(cast, as_):
    stage.opened(cast.payments, NOON - timedelta(seconds=10), due_in_s=3000)
    client = as_(cast.otto)
    page = client.get(reverse("dashboard:circuit", args=["prod", "payments"])).content.decode()

    assert "Let a run test it now" not in page
    assert "Set up a probe" in page
    assert "no later run may test it" in page
    answer = client.post(address("probe-now", "payments"), {"token": str(uuid.uuid4())}, headers=PART)
    assert answer.status_code == 409
    assert "confirm the class of a harmless tool" in answer.content.decode()
