"""Who asks: personal tokens and sessions, and every way in which a credential can be wrong."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane import clock
from controlplane.api import attempts
from controlplane.models import AuditEntry, Circuit, PersonalToken, User
from controlplane.models.access import Role
from controlplane.services import tokens
from controlplane.services.errors import Refused
from tests.api.generated import Api
from tests.conftest import NOON
from tests.dashboard import stage

FORCE_CLOSE = "/api/v1/environments/prod/circuits/search-api/actions/force-close"


@pytest.fixture
def issue(cast):
    def make(person=None, scopes=("view",), **more):
        return tokens.issue(person=person or cast.otto, name="script", scopes=scopes, now=clock.now(), **more)

    return make


def test_a_person_signed_in_makes_a_token_that_is_shown_once(cast, signed_in, document):
    api = signed_in(cast.otto)

    made = api.issue_token({"name": "pager bot", "scopes": ["view", "operate_circuit"]})
    secret, prefix = made.data["secret"], made.data["token"]["prefix"]
    other = Api(document, Client(), secret)

    assert made.status == 201
    assert other.read_me().data["scopes"] == ["operate_circuit", "view"]
    assert secret not in str(api.list_tokens().data) + str(PersonalToken.objects.values().get())
    assert made.data["token"]["expires_at"] == "2026-08-30T12:00:00Z"
    assert api.read_token(prefix=prefix).data["last_used_at"] == "2026-06-01T12:00:00Z"
    entry = AuditEntry.objects.get(action="issue_token")
    assert (entry.actor, entry.target) == ("otto", f"otto/{prefix}")
    assert secret.rpartition("_")[2] not in str(entry.detail)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "scopes": ["administer"]}, "scopes"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x", "scopes": "view"}, "scopes"),
        ({"name": "x", "scopes": [5]}, "scopes[0]"),
        ({"name": "", "scopes": ["view"]}, "name"),
        ({"name": "  ", "scopes": ["view"]}, "name"),
        ({"scopes": ["view"]}, "name"),
        ({"name": "x", "scopes": ["view"], "expires_at": "2026-05-01T00:00:00Z"}, "expires_at"),
        ({"name": "x", "scopes": ["view"], "expires_at": "2036-05-01T00:00:00Z"}, "expires_at"),
    ],
)
def test_a_token_that_may_not_be_is_refused(cast, signed_in, body, field):
    answer = signed_in(cast.otto).issue_token(body)

    assert (answer.status, answer.error["field"]) == (422, field), answer.data
    assert not PersonalToken.objects.exists()


def test_a_token_makes_no_tokens(cast, as_):
    answer = as_(cast.ada).issue_token({"name": "x", "scopes": ["view"]})

    assert (answer.status, answer.error["code"]) == (403, "session_only")
    assert AuditEntry.objects.get(action="issue_token", accepted=False).actor == "ada"


def test_a_revoked_token_is_refused_at_once(cast, issue, document):
    token, secret = issue(scopes=("view", "operate_circuit"))
    api = Api(document, Client(), secret)
    assert api.revoke_token(prefix=token.prefix).data["revoked_at"] is not None

    answer = api.send("POST", FORCE_CLOSE, {"reason": "x"})

    assert (answer.status, answer.error["code"]) == (401, "revoked_token")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    entry = AuditEntry.objects.get(action="force_close", accepted=False)
    assert token.prefix in entry.reason


def test_a_token_ends(cast, issue, document, frozen_clock):
    _, secret = issue(expires_at=NOON + timedelta(hours=1))
    api = Api(document, Client(), secret)
    frozen_clock.advance(3599)
    assert api.read_me().status == 200

    frozen_clock.advance(1)

    assert api.read_me().error["code"] == "expired_token"


def test_a_token_is_worth_no_more_than_its_person(cast, issue, document):
    _, secret = issue(scopes=("view", "operate_circuit"))
    api = Api(document, Client(), secret)

    User.objects.filter(pk=cast.otto.pk).update(role=Role.VIEWER)
    demoted = api.force_close({"reason": "x"}, environment="prod", dependency="search-api")
    User.objects.filter(pk=cast.otto.pk).update(is_active=False)
    gone = api.read_me()

    assert (demoted.status, demoted.error["code"]) == (403, "forbidden")
    assert (gone.status, gone.error["code"]) == (401, "bad_token")


def test_use_is_noted_to_the_minute(cast, issue, document, frozen_clock):
    token, secret = issue()
    api = Api(document, Client(), secret)

    for at in (0, 30, 30):
        frozen_clock.advance(at)
        api.read_me()
        token.refresh_from_db()
        assert token.last_used_at == (NOON if at == 0 or clock.now() < NOON + timedelta(minutes=1) else clock.now())


def test_one_sees_one_s_own_tokens_and_an_admin_everyone_s(cast, issue, as_):
    theirs, _ = issue(cast.petra)
    ann, ada = as_(cast.ann), as_(cast.ada)

    assert [one["owner"] for one in ann.list_tokens().data["results"]] == ["ann"]
    assert ann.read_token(prefix=theirs.prefix).status == 404
    assert ann.revoke_token(prefix=theirs.prefix).status == 404
    assert {one["owner"] for one in ada.list_tokens().data["results"]} == {"petra", "ann", "ada"}
    assert ada.revoke_token(prefix=theirs.prefix).status == 200


def test_a_token_ends_itself_and_no_other(cast, issue, document, signed_in):
    one, secret = issue()
    other, _ = issue()
    api = Api(document, Client(), secret)

    assert api.revoke_token(prefix=other.prefix).error["code"] == "session_only"
    assert api.revoke_token(prefix=one.prefix).status == 200
    assert signed_in(cast.otto).revoke_token(prefix=other.prefix).status == 200


@pytest.mark.parametrize(
    "header",
    [
        "", "Bearer", "Bearer ", "Basic b3R0bzp4", "Bearer rcp_nobody_" + "x" * 43, "Bearer rcp__",
        "Bearer " + "x" * 9000, "Bearer rcl_prodresearch_" + "r" * 43, "bearer rcp_\xe9_" + "x" * 43,
    ],
)  # fmt: skip
def test_what_is_no_token_of_ours_is_refused(cast, nobody, header):
    answer = nobody.send("GET", "/api/v1/me", headers={"Authorization": header})

    assert answer.status == 401
    assert answer.error["code"] in ("unauthenticated", "bad_token")


def test_a_right_prefix_with_a_wrong_secret_is_nobody_s(cast, issue, nobody):
    _, secret = issue()

    answer = nobody.send("GET", "/api/v1/me", headers={"Authorization": f"Bearer {secret[:-4]}zzzz"})

    assert answer.error["code"] == "bad_token"


@pytest.mark.parametrize(
    "query", ["token={0}", "access_token=x", "API_KEY=x", "state={0}", "{0}", "note=Bearer+{0}", "key=rcl"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_token_in_an_address_is_refused_and_not_written_down(cast, issue, document, query, method):
    _, secret = issue(scopes=("view", "operate_circuit"))
    api = Api(document, Client(), secret)

    answer = api.send(method, f"{FORCE_CLOSE}?{query.format(secret)}", {"reason": "x"} if method == "POST" else None)

    assert (answer.status, answer.error["code"]) == (400, "token_in_url")
    assert "revoke it" in answer.error["mend"]
    assert secret not in str(answer.data) + str(list(AuditEntry.objects.values()))
    assert AuditEntry.objects.filter(accepted=False).count() == (method == "POST")
    assert not PersonalToken.objects.exclude(last_used_at=None).exists()


def test_a_token_in_a_path_is_refused_too(cast, issue, document):
    _, secret = issue()

    answer = Api(document, Client(), secret).send("DELETE", f"/api/v1/tokens/{secret}")

    assert answer.error["code"] == "token_in_url"
    assert secret not in str(list(AuditEntry.objects.values()))


# The dashboard's own session


def test_a_session_reads_and_with_its_csrf_token_writes(cast, signed_in):
    stage.opened(cast.search_api, NOON)
    api = signed_in(cast.otto, csrf=True)
    assert api.read_me().status == 200

    refused = api.send("POST", FORCE_CLOSE, {"reason": "x"})
    api.client.cookies["csrftoken"] = token = "c" * 32
    done = api.send("POST", FORCE_CLOSE, {"reason": "x"}, headers={"X-CSRFToken": token})

    assert done.status == 200, done.data
    assert (refused.status, refused.error["code"]) == (403, "csrf")
    assert AuditEntry.objects.get(accepted=False).actor == "otto"
    assert (done.status, Circuit.objects.get(dependency=cast.search_api).state) == (200, "closed")
    assert "through" not in AuditEntry.objects.get(action="force_close", accepted=True).detail


def test_nobody_gets_401_and_what_nobody_tried_is_on_record_within_bounds(cast, nobody, monkeypatch):
    monkeypatch.setattr(attempts, "ANONYMOUS_A_MINUTE", 3)
    seconds = iter([0.0] * 10 + [61.0] * 5)
    monkeypatch.setattr(attempts, "monotonic", lambda: next(seconds))

    answers = [nobody.send("POST", FORCE_CLOSE, {"reason": "x"}) for _ in range(11)]

    assert {one.status for one in answers} == {401}
    entries = list(AuditEntry.objects.order_by("id"))
    assert len(entries) == 4
    assert {(one.actor, one.action, one.environment_id) for one in entries} == {
        ("(nobody)", "force_close", cast.prod.pk)
    }
    assert entries[-1].detail["left_out_before"] == 7


def test_reading_is_no_attempt(cast, nobody):
    assert nobody.list_tools(environment="prod").status == 401
    assert not AuditEntry.objects.exists()


# The command that makes the first one


def test_the_command_prints_a_token_and_nothing_else(cast, document):
    told = StringIO()

    call_command("issue_token", "otto", "--scope", "view", "--scope", "quarantine", "--days", "7", stdout=told)

    api = Api(document, Client(), told.getvalue().strip())
    assert api.read_me().data["scopes"] == ["quarantine", "view"]
    assert api.read_me().data["token"]["expires_at"] == "2026-06-08T12:00:00Z"


@pytest.mark.parametrize("arguments", [["nobody"], ["otto", "--scope", "administer"], ["otto", "--days", "0"],
                                       ["otto", "--days", "999999999"]])  # fmt: skip
def test_the_command_refuses_in_one_line(cast, arguments):
    with pytest.raises(CommandError) as refused:
        call_command("issue_token", *arguments)

    assert "\n" not in str(refused.value)
    assert not PersonalToken.objects.exists()


def test_the_service_refuses_what_the_api_cannot_send(cast, issue):
    with pytest.raises(Refused):
        issue(scopes=("view",), expires_at=NOON)
