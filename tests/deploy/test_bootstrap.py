"""The first admin and the first key: made once, shown once, never shown when they were given."""

import io
import re

import pytest
from django.core.management import CommandError, call_command

from controlplane.models import Agent, AgentKey, Environment, User
from controlplane.models.access import Role

pytestmark = pytest.mark.django_db

GIVEN_KEY = "rcl_given_" + "g" * 43


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A data folder, and nothing given."""
    for name in (
        "RECLOSER_ADMIN_USER",
        "RECLOSER_ADMIN_PASSWORD",
        "RECLOSER_ADMIN_PASSWORD_FILE",
        "RECLOSER_AGENT_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RECLOSER_DATA_DIR", str(tmp_path))
    return tmp_path


def bootstrap():
    said = io.StringIO()
    call_command("bootstrap", stdout=said)
    return said.getvalue()


def test_the_first_admin_can_sign_in_with_the_password_that_is_shown():
    said = bootstrap()

    password = re.search(r"user admin, password (\S+) ", said)[1]
    admin = User.objects.get()
    assert (admin.username, admin.role, admin.is_superuser) == ("admin", Role.ADMIN, False)
    assert admin.check_password(password)


def test_the_first_key_is_shown_and_kept_for_its_owner_alone(folder):
    said = bootstrap()

    token = re.search(r"first agent key: (rcl_\S+) for agent first-agent in prod", said)[1]
    assert (folder / "agent-key").read_text() == f"{token}\n"
    assert (folder / "agent-key").stat().st_mode & 0o777 == 0o600
    assert AgentKey.objects.get().prefix == token.split("_")[1]


def test_a_second_time_nothing_is_made_and_nothing_shown():
    bootstrap()

    assert bootstrap() == ""
    assert User.objects.count() == AgentKey.objects.count() == Environment.objects.count() == Agent.objects.count() == 1


def test_what_is_given_is_used_and_never_shown(folder, monkeypatch):
    (folder / "password").write_text("from a secret store\n")
    monkeypatch.setenv("RECLOSER_ADMIN_USER", "ada")
    monkeypatch.setenv("RECLOSER_ADMIN_PASSWORD_FILE", str(folder / "password"))
    monkeypatch.setenv("RECLOSER_AGENT_KEY", GIVEN_KEY)

    said = bootstrap()

    assert User.objects.get(username="ada").check_password("from a secret store")
    assert AgentKey.objects.get().prefix == "given"
    assert "from a secret store" not in said
    assert GIVEN_KEY not in said
    assert not (folder / "agent-key").exists()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("RECLOSER_ADMIN_PASSWORD", "short", "RECLOSER_ADMIN_PASSWORD will not do: .*at least 12"),
        ("RECLOSER_AGENT_KEY", "rcl_x_short", "RECLOSER_AGENT_KEY has not the form rcl_PREFIX_SECRET"),
        ("RECLOSER_AGENT_KEY", "sk-another-vendors-key", "RECLOSER_AGENT_KEY has not the form"),
    ],
)
def test_what_will_not_do_is_refused_and_nothing_is_made(monkeypatch, name, value, told):
    monkeypatch.setenv(name, value)

    with pytest.raises(CommandError, match=told):
        bootstrap()

    assert not User.objects.exists()
    assert not AgentKey.objects.exists()


def test_a_name_that_is_taken_by_somebody_else_is_not_raised_to_admin():
    User.objects.create_user("admin", role=Role.VIEWER)

    with pytest.raises(CommandError, match="set RECLOSER_ADMIN_USER to another name"):
        bootstrap()

    assert User.objects.get().role == Role.VIEWER
