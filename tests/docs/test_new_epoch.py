"""After a restore."""

import io

import pytest
from django.core.management import call_command

from controlplane.delivery import versions
from tests import factories

pytestmark = pytest.mark.django_db


def test_after_a_restore_every_environment_begins_a_new_epoch():
    here = factories.environment("prod")
    before = versions.of(here.pk)
    said = io.StringIO()

    call_command("new_epoch", stdout=said)

    after = versions.of(here.pk)
    assert after.epoch != before.epoch
    assert (after.config, after.circuits) == (before.config, before.circuits)
    assert said.getvalue() == "1 environments begin a new epoch\n"
