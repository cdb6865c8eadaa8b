"""Secrets at rest, and the change of their key."""

from io import StringIO

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from controlplane import secrets
from controlplane.models import AlertChannel, Probe
from tests.factories import NOON, cast

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def test_what_is_sealed_is_unreadable_and_comes_back(settings):
    settings.FIELD_KEYS = [NEW]
    sealed = secrets.seal_values({"Authorization": "Bearer abc"})

    assert "Bearer" not in sealed
    assert secrets.unseal_values(sealed) == {"Authorization": "Bearer abc"}


def test_an_older_key_still_opens_and_a_foreign_one_says_how_to_mend(settings):
    settings.FIELD_KEYS = [OLD]
    sealed = secrets.seal("abc")
    settings.FIELD_KEYS = [NEW, OLD]
    assert secrets.unseal(sealed) == "abc"

    settings.FIELD_KEYS = [NEW]
    with pytest.raises(secrets.Unreadable, match="put the old key back"):
        secrets.unseal(sealed)


@pytest.mark.parametrize("keys", [[], ["not-a-key"]])
def test_without_a_usable_key_nothing_is_stored_in_the_clear(settings, keys):
    settings.FIELD_KEYS = keys
    with pytest.raises(ImproperlyConfigured, match="RECLOSER_FIELD_KEYS"):
        secrets.seal("abc")


@pytest.mark.django_db
def test_rotation_leaves_everything_readable_under_the_new_key_alone(settings):
    settings.FIELD_KEYS = [OLD]
    probe, channel = _stored()

    settings.FIELD_KEYS = [NEW, OLD]
    call_command("rotate_field_keys", stdout=StringIO())
    settings.FIELD_KEYS = [NEW]

    probe.refresh_from_db()
    channel.refresh_from_db()
    assert secrets.unseal_values(probe.secrets) == {"X-Api-Key": "k"}
    assert secrets.unseal(channel.secret) == "s"


@pytest.mark.django_db
def test_rotation_names_what_no_key_opens(settings):
    settings.FIELD_KEYS = [OLD]
    _stored()
    settings.FIELD_KEYS = [NEW]

    with pytest.raises(CommandError, match=r"probe of search-api, channel pager"):
        call_command("rotate_field_keys", stdout=StringIO())


def _stored():
    stage = cast()
    probe = Probe.objects.create(
        dependency=stage.search_api,
        operation="web_search",
        spec={"url": "https://example.com/"},
        secrets=secrets.seal_values({"X-Api-Key": "k"}),
        updated_at=NOON,
        updated_by="ada",
    )
    channel = AlertChannel.objects.create(
        environment=stage.prod, kind="webhook", name="pager", target="https://example.com/", secret=secrets.seal("s"),
        created_at=NOON, created_by="ada",
    )  # fmt: skip
    return probe, channel


def test_a_secret_is_masked_in_every_form_that_comes_back():
    values = {"Authorization": "Bearer abc/def+123", "Short": "ab"}
    text = "Bearer abc/def+123, abc/def+123, Bearer%20abc%2Fdef%2B123, Bearer%20abc/def%2B123, ab"

    masked = secrets.masked(text, values)

    assert "def" not in masked
    assert masked.endswith(", ab")
